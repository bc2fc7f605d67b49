"""A network of a user's own: embeddings, one GRU, and the logits."""

from torch import Tensor, nn

from internalize import ModelConfig


class Recurrent(nn.Module):
    def __init__(self, config: ModelConfig, vocabulary: int, positions: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.width)
        self.gru = nn.GRU(config.width, config.width, config.depth, batch_first=True)
        self.unembedding = nn.Linear(config.width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        read, _ = self.gru(self.embedding(tokens))
        logits: Tensor = self.unembedding(read)
        return logits
