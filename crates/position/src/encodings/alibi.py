class Alibi(Encoding):
    """A penalty that grows with the distance, by a learned slope for each head."""

    slopes: nn.Parameter  # [layers, slopes], of the first heads; the others have none

    def bias(self, rows: Rows) -> Tensor:
        slopes = self.slopes[self.layer]
        slopes = F.pad(slopes, (0, self.config["heads"] - len(slopes)))
        return -slopes[:, None, None] * self.distance(rows).to(slopes.dtype)
