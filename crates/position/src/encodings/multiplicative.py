class Multiplicative(Encoding):
    """Token embeddings times a learned vector for each position."""

    table: nn.Parameter  # [table_size, width]

    def embed(self, x: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        if self.layer > 0:
            return x
        return x * between(self.own("table"), self.places(positions))
