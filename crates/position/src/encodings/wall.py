class Wall(Encoding):
    """A gate of each row, head and channel: how much of a key's channel is kept."""

    w_g: nn.Parameter  # [layers, width, heads * head_dim]
    b_g: nn.Parameter  # [layers, heads * head_dim]
    w_s: nn.Parameter  # [layers, width, heads], of a gate of the whole logit
    b_s: nn.Parameter  # [layers, heads]

    def scores(
        self, scores: Tensor, q: Tensor, k: Tensor, scale: float, rows: Rows
    ) -> Tensor:
        x, layer = rows.input, self.layer
        kept = F.logsigmoid(x @ self.w_g[layer] + self.b_g[layer]).cumsum(1)
        kept = kept.unflatten(-1, (-1, q.shape[-1])).transpose(1, 2)
        # [batch, heads, queries, keys, head_dim]: later keys are masked.
        faded = (kept[:, :, :, None] - kept[:, :, None]).clamp_max(0).exp()
        return (q[:, :, :, None] * faded * k[:, :, None]).sum(-1) * scale

    def bias(self, rows: Rows) -> Tensor:
        if not self.config["scalar_gate"]:
            return rows.input.new_zeros(1)
        gates = rows.input @ self.w_s[self.layer] + self.b_s[self.layer]
        kept = F.logsigmoid(gates).cumsum(1).transpose(1, 2)
        return kept[..., None] - kept[..., None, :]
