class Tupe(Encoding):
    """Positions have projections of their own, beside q and k."""

    table: nn.Parameter  # [table_size, width]
    ln_gain: nn.Parameter  # [width]
    ln_bias: nn.Parameter  # [width]
    u_q: nn.Parameter  # [width, heads * head_dim]
    u_k: nn.Parameter  # [width, kv_heads * head_dim]
    rel_table: nn.Parameter  # [heads, buckets], where distances count

    def widened(self, x: Tensor, matrix: Tensor, positions: Tensor) -> Tensor:
        z = between(self.own("table"), self.places(positions))
        z = F.layer_norm(z, z.shape[-1:], self.ln_gain, self.ln_bias, 1e-5) @ matrix
        z = z.unflatten(-1, (x.shape[1], -1)).transpose(0, 1)
        return torch.cat([x, z.expand_as(x)], -1)

    def query(self, q: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        return self.widened(q, self.u_q, positions) / math.sqrt(2)

    def key(self, k: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        return self.widened(k, self.u_k, positions)

    def bias(self, rows: Rows) -> Tensor | float:
        c = self.config
        if c["relative"] == "none":
            return 0.0
        return self.rel_table[
            :, bucket(self.distance(rows), c["buckets"], c["max_distance"])
        ]
