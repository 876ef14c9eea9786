class Pope(Encoding):
    """The content sets the lengths of the channels, the position their angles."""

    delta: nn.Parameter  # [layers, kv_heads, head_dim]

    def query(self, q: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        return self.turned(q, self.angles(positions))

    def key(self, k: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        delta = self.delta[self.layer].clamp(-2 * math.pi, 0)
        return self.turned(k, self.angles(positions) + delta[:, None])

    def turned(self, x: Tensor, angles: Tensor) -> Tensor:
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return (
            torch.cat([cos, sin], -1)
            * self.config["factor"]
            * F.softplus(x).repeat(1, 1, 1, 2)
        )
