"""Which part of the chain is shown when. A curriculum knows nothing of tokens or models."""

from internalize.curricula.curriculum import METHODS, Curriculum, Shown, find_curriculum
from internalize.curricula.schedule import Progress, ScheduleConfig

__all__ = ["METHODS", "Curriculum", "Progress", "ScheduleConfig", "Shown", "find_curriculum"]
