class Deberta(Encoding):
    """Products of content with vectors by clipped distance, of queries and of keys."""

    rel: nn.Parameter  # [2 span, width]
    w_pos_k: nn.Parameter  # [layers, width, heads * head_dim]
    w_pos_q: nn.Parameter  # [layers, width, heads * head_dim]

    def embed(self, x: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        last = self.config["absolute_layers"]
        if last == 0 or self.layer != self.config["layers"] - last:
            return x
        table, keys = self.get_parameter("absolute.table"), self.config.get(
            "absolute", {}
        )
        return x + table_rows(table, keys, self.places(positions))

    def scores(
        self, scores: Tensor, q: Tensor, k: Tensor, scale: float, rows: Rows
    ) -> Tensor:
        n = rows.positions[:, None] - rows.positions
        n = n / self.config["interpolation"]
        span = len(self.rel) // 2

        def terms(x: Tensor, matrix: Tensor, distance: Tensor) -> Tensor:
            vectors = (self.rel @ matrix[self.layer]).view(2 * span, x.shape[1], -1)
            at = (distance.floor() + span).clamp(0, 2 * span - 1).long()
            return torch.einsum("bhid,rhd->bhir", x, vectors).gather(
                -1, at.expand(*x.shape[:2], -1, -1)
            )

        to_position = terms(q, self.w_pos_k, n)
        to_content = terms(k, self.w_pos_q, -n.T).transpose(-1, -2)
        return (scores + (to_position + to_content) * scale) / math.sqrt(3)
