"""A recurrent network in the place of the transformer: embeddings, one GRU, and the logits.

    internalize train --task C2 --horizon 10 --method left --iterations 2000 --optimizer.lr 3e-3 --model.depth 1
        --model.width 32 --model.heads 1 --model.network examples/networks/recurrent.py:Recurrent

Called with the model's config, the number of token ids and the most tokens it will read. The file is kept with
the run, so it stands alone.
"""

from torch import Tensor, nn

from internalize import ModelConfig


class Recurrent(nn.Module):
    def __init__(self, config: ModelConfig, vocabulary: int, positions: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.width)
        self.gru = nn.GRU(config.width, config.width, config.depth, batch_first=True)
        self.unembedding = nn.Linear(config.width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, length) tokens to (batch, length, vocabulary) logits of the token after each."""
        read, _ = self.gru(self.embedding(tokens))
        logits: Tensor = self.unembedding(read)
        return logits
