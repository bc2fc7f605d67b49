"""The command line: a table of command → function. Each room offers its own commands."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from internalize.configs.command_line import parse
from internalize.configs.files import dropping_remarks, lead_nowhere, outliving_the_reader, require_plain
from internalize.configs.named import trusting
from internalize.errors import (
    BadInput,
    Interrupted,
    RunFailed,
    RunWarning,
    closest,
    is_out_of_memory,
    require,
    require_seed,
)
from internalize.help import overview


class Command(NamedTuple):
    """Where the dataclass of arguments and the function that takes it are, and what the command is for.

    arguments: a dataclass, or a function of the words that tells which one, and gives the words left for it. It
    is `module:name` where it stands apart from the function: a module of options loads nothing that computes,
    so that help and errors are quick.
    """

    module: str
    arguments: str
    function: str
    purpose: str

    def expected(self) -> Any:
        """The arguments. The module of the function is not imported for them if they stand elsewhere."""
        place, _, name = self.arguments.rpartition(":")
        return getattr(import_module(place or self.module), name)

    def carried_out_by(self) -> Callable[[Any], int | None]:
        found: Callable[[Any], int | None] = getattr(import_module(self.module), self.function)
        return found


COMMANDS: dict[str, Command] = {
    "demo": Command("internalize.demo", "DemoArguments", "demo_command",
                    "see the paper's main effect in minutes: out loud, at once, internalized"),
    "train": Command("internalize.kinds.chain.commands", "TrainArguments", "train_command",
                     "train a transformer on a semiautomaton"),
    "resume": Command("internalize.kinds.entrance", "ResumeArguments", "resume_command",
                      "go on with an interrupted run"),
    "experiment": Command("internalize.kinds.entrance", "arguments_for", "experiment_command",
                          "train any kind of experiment by its name, also your own: file.py:KIND"),
    "sweep": Command("internalize.sweeps.commands", "SweepArguments", "sweep_command",
                     "carry out all runs of a sweep file, each once, here or on a cluster"),
    "collect": Command("internalize.sweeps.commands", "CollectArguments", "collect_command",
                       "a sweep's finished runs as one table, rates by any field, and what is missing"),
    "plan": Command("internalize.sweeps.commands", "PlanArguments", "plan_command",
                    "operations, bytes, hours and dollars of sweeps on GPUs, before anything runs"),
    "runs": Command("internalize.runs.commands", "RunsArguments", "runs_command",
                    "list runs, by task, method, status and accuracy"),
    "runs show": Command("internalize.runs.commands", "RunsShowArguments", "runs_show_command",
                         "a run's config, results and curves"),
    "runs compare": Command("internalize.runs.commands", "RunsCompareArguments", "runs_compare_command",
                            "runs or groups of runs side by side, paired by seed"),
    "runs export": Command("internalize.runs.commands", "RunsExportArguments", "runs_export_command",
                           "all runs as one table, CSV or Parquet"),
    "runs page": Command("internalize.explorer.page", "RunsPageArguments", "runs_page_command",
                         "all runs as one page: filter, sort, curves, explorers"),
    "runs prune": Command("internalize.runs.removal", "PruneArguments", "prune_command",
                          "delete failed runs, or what finished ones no longer need"),
    "runs trust": Command("internalize.runs.provenance", "RunsTrustArguments", "runs_trust_command",
                          "allow the Python files that runs bring along to be executed"),
    "runs verify": Command("internalize.runs.verification", "RunsVerifyArguments", "runs_verify_command",
                           "check the files of runs for damage, and make anew what can be"),
    "doctor": Command("internalize.runs.doctor", "DoctorArguments", "doctor_command",
                      "versions, devices, disk and extras, and what is wrong"),
    "race": Command("internalize.analysis.race", "RaceArguments", "race_command",
                    "methods at equal operations: which internalizes, at what cost, and what it keeps"),
    "frontier": Command("internalize.analysis.frontier", "FrontierArguments", "frontier_command",
                        "the largest horizon internalized within some minutes, and the law of the cost"),
    "atlas": Command("internalize.analysis.atlas", "AtlasArguments", "atlas_command",
                     "what internalizing each task of a sweep cost, beside what theory says of the task"),
    "evaluate": Command("internalize.analysis.evaluation",
                        "internalize.analysis.arguments:EvaluateArguments", "evaluate_command",
                        "measure a run on fresh inputs of any distribution"),
    "show": Command("internalize.analysis.evaluation",
                    "internalize.analysis.arguments:ShowArguments", "show_command",
                    "prompts, answers and truth side by side"),
    "ask": Command("internalize.analysis.evaluation",
                   "internalize.analysis.arguments:AskArguments", "ask_command",
                   "ask a run one question of your own, and see whether it is right"),
    "parity": Command("internalize.kinds.parity.commands", "ParityArguments", "parity_command",
                      "the paper's theorem at work: a hidden parity learned out loud, then internalized"),
    "parity diagram": Command("internalize.kinds.parity.diagrams",
                              "internalize.kinds.parity.commands:DiagramArguments", "diagram_command",
                              "how far the theorem's constants can be relaxed"),
    "hints": Command("internalize.kinds.hints.commands", "HintsArguments", "hints_command",
                     "an MLP learns with hints, then without: direct, curriculum or mixture"),
    "hints draw": Command("internalize.kinds.hints.commands", "HintsDrawArguments", "hints_draw_command",
                          "accuracy against samples, from finished runs with hints"),
    "pds": Command("internalize.analysis.shift",
                   "internalize.analysis.arguments:ShiftArguments", "shift_command",
                   "positive distribution shift: target loss against training samples"),
    "selfplay": Command("internalize.kinds.selfplay.commands", "SelfPlayArguments", "selfplay_command",
                        "search folded into a policy: a network learns to move as tree search with it does"),
    "selfplay draw": Command("internalize.kinds.selfplay.commands", "SelfPlayDrawArguments",
                             "selfplay_draw_command", "the gap between raw and searched play, round by round"),
    "selfplay bench": Command("internalize.benchmarks.selfplay",
                              "internalize.benchmarks.arguments:SelfPlayBenchArguments",
                              "selfplay_bench_command", "this search against OpenSpiel's own, on one network"),
    "text": Command("internalize.kinds.text.checking", "TextArguments", "text_command",
                    "your own language model on your own chains of words, which are then taken away"),
    "text bench": Command("internalize.benchmarks.text",
                          "internalize.benchmarks.arguments:TextBenchArguments", "text_bench_command",
                          "training and answering on text beside a plain loop with Hugging Face"),
    "data check": Command("internalize.kinds.text.checking", "DataCheckArguments", "data_check_command",
                          "rows of text before a training: lengths, tokens, stages, warnings"),
    "data make": Command("internalize.kinds.text.making", "DataMakeArguments", "data_make_command",
                         "rows of problems with exact answers: multiplication, addition, graphs, automata"),
    "matrix": Command("internalize.analysis.matrix",
                      "internalize.analysis.arguments:MatrixArguments", "matrix_command",
                      "every saved stage at every answer budget: which can it still serve?"),
    "profile": Command("internalize.analysis.profile",
                       "internalize.analysis.arguments:ProfileArguments", "profile_command",
                       "accuracy as inputs leave the training distribution, and on rare states"),
    "audit": Command("internalize.analysis.audit",
                     "internalize.analysis.arguments:AuditArguments", "audit_command",
                     "what a mixture model does with right, wrong and missing length tokens"),
    "check": Command("internalize.analysis.check",
                     "internalize.analysis.arguments:CheckArguments", "check_command",
                     "did it internalize strictly, by the paper's definition, clause by clause?"),
    "probe": Command("internalize.analysis.probe",
                     "internalize.analysis.arguments:ProbeArguments", "probe_command",
                     "where in the model is each state, though it is no longer spoken?"),
    "patch": Command("internalize.analysis.patch",
                     "internalize.analysis.arguments:PatchArguments", "patch_command",
                     "which place in the model decides the answer? one activation replaced at a time"),
    "diagnose": Command("internalize.analysis.diagnosis",
                        "internalize.analysis.arguments:DiagnoseArguments", "diagnose_command",
                        "what went right or wrong in a run, and what to try"),
    "construct": Command("internalize.analysis.construction",
                         "internalize.analysis.arguments:ConstructArguments", "construct_command",
                         "a counter's transformer written by hand, certified, and beside a trained one"),
    "figures": Command("internalize.figures.paper", "FiguresArguments", "figures_command",
                       "the figures of the paper, and the verdicts on their claims"),
    "figure": Command("internalize.figures.commands", "FigureArguments", "figure_command",
                      "one figure of the paper: run what is missing, draw it, judge its claims"),
    "report": Command("internalize.figures.commands", "ReportArguments", "report_command",
                      "all figures, captions and verdicts in one page"),
    "explore": Command("internalize.explorer.page", "ExploreArguments", "explore_command",
                       "one page in which trained models answer, stage by stage"),
    "bench": Command("internalize.benchmarks.commands",
                     "internalize.benchmarks.arguments:BenchArguments", "bench_command",
                     "this engine against Hugging Face's GPT-2 and AdamW, in one run"),
    "tasks": Command("internalize.tasks.names", "TasksArguments", "tasks_command",
                     "list the tasks, or show one of them"),
    "examples": Command("internalize.welcome", "ExamplesArguments", "examples_command",
                        "copy the examples (sweeps, circuits, networks) into a folder of your own"),
    "completion": Command("internalize.welcome", "CompletionArguments", "completion_command",
                          "let your shell complete commands, options and runs"),
}  # fmt: skip


TRAINING = {"demo", "train", "resume", "experiment", "sweep", "race", "frontier", "parity", "parity diagram",
            "hints", "pds", "selfplay", "text", "figure"}  # fmt: skip
"""Commands that go on when nobody reads what they print: 0 means that their runs are finished."""
NARROWEST = 40
"""Columns below which help and tables are not broken any further."""
ASKED_TOO_MUCH = {errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ENOENT}
"""Of the system's refusals those that lie in what the user wrote."""
NOT_ALLOWED = {errno.EACCES, errno.EPERM}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code.

    The border: whatever goes wrong in a way that lies outside of this package is told in one line. With
    INTERNALIZE_DEBUG=1 it is told with its traceback.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    with dropping_remarks(), warnings.catch_warnings():
        warnings.showwarning = _warn_in_one_line
        try:
            _widen()
            return _run_and_flush(words)
        except BadInput as error:
            return _refuse(str(error), 2)
        except KeyboardInterrupt:
            return 130
        except BrokenPipeError:  # the reader of a pipe has gone: nothing is wrong here
            lead_nowhere(sys.stdout)
            return 0
        except Exception as error:
            told = _told(error)
            if told is None or os.environ.get("INTERNALIZE_DEBUG", "") not in ("", "0"):
                raise
            return _refuse(*told)


def _widen() -> None:
    """Libraries that break lines never end, or fail, where nothing fits a line."""
    if shutil.get_terminal_size().columns < NARROWEST or os.environ.get("COLUMNS", "1").strip("0") == "":
        os.environ["COLUMNS"] = str(NARROWEST)


def _refuse(text: str, code: int) -> int:
    _say(text)
    return code


def _say(text: str) -> None:
    """One line on the error stream, whatever a name or a message from elsewhere holds."""
    from internalize.display.terminal import plain

    print(f"internalize: {plain(' '.join(text.split()))}", file=sys.stderr)


def _told(error: Exception) -> tuple[str, int] | None:
    """The line and the exit code for an error that is no mistake of this package; None for one that is."""
    if is_out_of_memory(error):
        asked = re.search(r"allocate ([\d.]+ \w+)", str(error))
        more = f" for {asked[1]} more" if asked else ""
        return f"not enough memory{more}; a smaller batch, model or number of samples needs less", 1
    hint = "(INTERNALIZE_DEBUG=1 shows where)"
    if isinstance(error, OSError):
        name = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else ""
        text = f"{error.strerror or error or type(error).__name__}{name[:300]}"
        if error.errno in NOT_ALLOWED:
            return text, 2
        return f"{text} {hint}", 2 if error.errno in ASKED_TOO_MUCH else 1
    kinds = {
        "a number is too large": isinstance(error, OverflowError) or _is_overflow(error),
        "a text cannot be written or read as it is": isinstance(error, UnicodeError),
        "too deeply nested": isinstance(error, RecursionError),
        "links lead in a circle": isinstance(error, RuntimeError) and "Symlink loop" in str(error),
    }
    what = next((what for what, is_it in kinds.items() if is_it), None)
    return None if what is None else (f"{what}: {str(error)[:300]} {hint}", 2)


def _is_overflow(error: Exception) -> bool:
    """Torch says it in words."""
    words = ("without overflow", "Overflow when unpacking", "out of range integral type conversion")
    return isinstance(error, RuntimeError | ValueError | TypeError) and any(w in str(error) for w in words)


def _run_and_flush(words: list[str]) -> int:
    """What is printed is written before the exit code is known: a full disk must not end with 0."""
    try:
        return _run(words)
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            lead_nowhere(sys.stdout)
            raise OSError(error.errno, error.strerror, "standard output") from None


def _run(words: list[str]) -> int:
    if words[:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview(purposes()))
        return 0
    if words[0] in ("-V", "--version"):
        from internalize.runs.provenance import package_version

        print(f"internalize {package_version()}")
        return 0
    name = next((name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS), words[0])
    if name not in COMMANDS and words[1:2] in (["--help"], ["-h"]) and (parts := _beginning_with(name)):
        print("\n".join(f"internalize {part:<12} {COMMANDS[part].purpose}" for part in parts))
        return 0
    if name not in COMMANDS:
        raise _unknown_command(words)
    if name == "runs" and len(words) > 1 and not words[1].startswith("-"):  # it has no positional argument
        parts = [other.removeprefix("runs ") for other in COMMANDS if other.startswith("runs ")]
        near = closest(words[1], parts) or f"; for one run: internalize runs show {shlex.quote(words[1])}"
        raise BadInput("runs", f"no command {words[1]!r}{near}; there are {', '.join(parts)}")
    command, rest = COMMANDS[name], words[len(name.split()) :]
    expected = command.expected()
    if not isinstance(expected, type):
        expected, rest = expected(rest)
    defaults = (
        expected.defaults(rest) if hasattr(expected, "defaults") else None
    )  # where the words name a preset
    arguments = parse(expected, rest, f"internalize {name}", defaults)
    require_plain(arguments)
    arguments = _at_stage(arguments)
    require_seed(getattr(arguments, "seed", 0))  # of all who read runs; a training's config looks at its own
    function = _own_way(name, arguments) or command.carried_out_by()
    with (
        trusting() if getattr(arguments, "trust", False) else nullcontext(),
        outliving_the_reader() if name in TRAINING else nullcontext(),
    ):
        return _carry_out(function, arguments)


def _beginning_with(word: str) -> list[str]:
    """The commands of two words whose first this is."""
    return [command for command in COMMANDS if command.startswith(f"{word} ")]


def _unknown_command(words: list[str]) -> BadInput:
    """`data` alone is the beginning of two commands, and near to neither by its letters."""
    name, longer = words[0], _beginning_with(words[0])
    asked = " ".join(words[:2]) if words[1:] and not words[1].startswith("-") else name
    if longer:
        near = closest(asked, longer) if asked != name else ""
        return BadInput("command", f"no command {asked!r}{near}; there are {' and '.join(longer)}")
    near = closest(name, list(COMMANDS)) or closest(" ".join(words[:2]), list(COMMANDS))
    return BadInput("command", f"unknown command {name!r}{near}; internalize --help lists all commands")


def _at_stage(arguments: Any) -> Any:
    """RUN@3 is RUN with --stage 3, for every command that has both."""
    if not (isinstance(getattr(arguments, "run", None), Path) and hasattr(arguments, "stage")):
        return arguments
    from internalize.runs.location import is_run_folder, split_stage

    run, stage = split_stage(str(arguments.run), "run")
    if stage is None or is_run_folder(arguments.run):
        return arguments
    once = arguments.stage in (None, stage)
    require(once, "stage", f"is said twice: {arguments.run} and --stage {arguments.stage}")
    return replace(arguments, run=Path(run), stage=stage)


def _own_way(name: str, arguments: Any) -> Callable[[Any], int | None] | None:
    """Whoever asks a run of a kind that answers the command in its own way gets that answer."""
    named = {field: getattr(arguments, field, None) for field in ("run", "fast", "against")}
    if not any(named.values()):
        return None
    from internalize.kinds import own_command
    from internalize.runs.location import find_folder, model_name

    for field, text in named.items():  # a run that is not there is told before anything that computes is loaded
        if text is not None and (run := model_name(str(text))) is not None:
            find_folder(run, field)
    asked = named["run"] or named["fast"]
    return None if asked is None else own_command(name, str(asked))


def _warn_in_one_line(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    text = f"warning: {message}" if issubclass(category, RunWarning) else f"{category.__name__}: {message}"
    _say(text)


def _carry_out(function: Callable[[Any], int | None], arguments: Any) -> int:
    try:
        return function(arguments) or 0
    except Interrupted as stopped:
        _say(str(stopped))
        return stopped.exit_code
    except RunFailed as problem:
        _say(f"the run failed: {problem}")
        return 1


def purposes() -> dict[str, str]:
    """Command → what it is for."""
    return {name: command.purpose for name, command in COMMANDS.items()}


if __name__ == "__main__":
    sys.exit(main())
