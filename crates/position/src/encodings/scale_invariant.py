class ScaleInvariant(Encoding):
    """Scores times a, less a^2 - 1, where a grows with the log of the distance."""

    def scores(
        self, scores: Tensor, q: Tensor, k: Tensor, scale: float, rows: Rows
    ) -> Tensor:
        penalty = 2 * torch.log1p(self.distance(rows) / self.config["tau"])
        return scores * (1 + penalty).sqrt().to(scores.dtype) - penalty.to(scores.dtype)
