class SelectiveRope(Encoding):
    """Turns q and k by sums of angles that the rows decide."""

    w_down: nn.Parameter  # [layers, width, rank]
    w_up: nn.Parameter  # [layers, rank, kv_heads * bands]
    conv: nn.Parameter  # [layers, kernel, kv_heads * bands]
    w_gate: nn.Parameter  # [layers, width, kv_heads], with gates
    b_gate: nn.Parameter  # [layers, kv_heads]
    log_bias: nn.Parameter  # [layers, kv_heads, bands], with a step that every row adds

    def query(self, q: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        c, layer, bands = self.config, self.layer, q.shape[-1] // 2
        heads = self.w_up.shape[-1] // bands
        slices = rows.input.unflatten(-1, (heads, -1))
        u = (
            slices * (slices.square().sum(-1, keepdim=True) + c["eps"]).rsqrt()
        ).flatten(2)
        steps = convolved(u @ self.w_down[layer] @ self.w_up[layer], self.conv[layer])
        steps = steps.unflatten(-1, (heads, bands))
        if c["bias"]:
            steps = steps + self.log_bias[layer].exp()
        if c["gate"]:
            steps = (
                steps
                * torch.sigmoid(u @ self.w_gate[layer] + self.b_gate[layer])[..., None]
            )
        band = torch.arange(bands, device=q.device).double()
        factors = c["fastest"] * c["base"] ** (-band / bands)
        angles = (steps.cumsum(1) * factors.to(q.dtype)).transpose(1, 2)
        angles = angles.repeat_interleave(q.shape[1] // heads, 1)
        return rotate(q, angles.cos(), angles.sin())

    def key(self, k: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        return self.query(k, positions, rows)
