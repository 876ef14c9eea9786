class Learned(Encoding):
    """A learned vector for each position, added to the token embeddings."""

    table: nn.Parameter  # [table_size, width]

    def embed(self, x: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        if self.layer > 0:
            return x
        return x + table_rows(self.own("table"), self.config, self.places(positions))
