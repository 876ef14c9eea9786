class Alibi(Encoding):
    """A penalty that grows with the distance, by a learned slope for each head."""

    slopes: nn.Parameter  # [layers, heads]

    def bias(self, rows: Rows) -> Tensor:
        return -self.slopes[self.layer, :, None, None] * self.distance(rows).to(
            self.slopes.dtype
        )
