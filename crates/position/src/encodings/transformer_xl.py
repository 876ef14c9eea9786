class TransformerXl(Encoding):
    """(q + u)·k + (q + v_bias)·r, with r a map of waves of the distance."""

    u: nn.Parameter  # [layers, heads, head_dim]
    v_bias: nn.Parameter  # [layers, heads, head_dim]
    w_r: nn.Parameter  # [layers, width, heads * head_dim], unless keys' matrix serves

    def query(self, q: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        # g·R(i - j) falls apart into waves of i and of j, so that q and k become wider.
        heads, dim = q.shape[1], q.shape[-1]
        if self.config["shared_key"]:
            w = rows.key_matrix.unflatten(-1, (-1, dim))
            w = w.repeat_interleave(heads // w.shape[1], 1)
        else:
            w = self.w_r[self.layer].unflatten(-1, (heads, dim))
        g = torch.einsum("bhid,whd->bhiw", q + self.v_bias[self.layer][:, None], w)
        g_sin, g_cos = g.chunk(2, -1)
        angles = self.angles(positions)
        cos, sin = angles.cos().to(q.dtype), angles.sin().to(q.dtype)
        q = q + self.u[self.layer][:, None]
        return torch.cat([q, g_sin * sin + g_cos * cos, g_cos * sin - g_sin * cos], -1)

    def key(self, k: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        angles = self.angles(positions)
        waves = torch.cat([angles.cos(), angles.sin()], -1).to(k.dtype)
        return torch.cat([k, waves.expand(*k.shape[:3], -1)], -1)
