class Shaw(Encoding):
    """Learned vectors by clipped distance, added to keys and values."""

    rel_k: nn.Parameter  # [layers, distances, head_dim]
    rel_v: nn.Parameter  # [layers, distances, head_dim], where values have vectors

    def rows_of(self, rows: Rows) -> Tensor:
        n = rows.positions[:, None] - rows.positions
        n = (n / self.config["interpolation"]).floor()
        least, most = self.config["p_min"], self.config["p_max"]
        return (n.clamp(least, most) - least).long()

    def scores(
        self, scores: Tensor, q: Tensor, k: Tensor, scale: float, rows: Rows
    ) -> Tensor:
        at = self.rows_of(rows).expand_as(scores)
        return scores + (q @ self.rel_k[self.layer].T * scale).gather(-1, at)

    def from_weights(self, weights: Tensor, rows: Rows) -> Tensor | float:
        if not self.config["values"]:
            return 0.0
        vectors = self.rel_v[self.layer]
        sums = weights.new_zeros(*weights.shape[:3], len(vectors))
        at = self.rows_of(rows).expand_as(weights)
        return sums.scatter_add(-1, at, weights) @ vectors
