class Index(Encoding):
    """The position, or its share of the length, times a learned vector."""

    weight: nn.Parameter  # [width]

    def embed(self, x: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        if self.layer > 0:
            return x
        at = self.places(positions)
        if self.config["normalized"]:
            at = positions / max(self.config.get("length", len(positions)) - 1, 1)
        return x + at.to(x.dtype)[:, None] * self.weight
