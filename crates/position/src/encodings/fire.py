class Fire(Encoding):
    """A small network of the distance over the query's position."""

    c: nn.Parameter  # [layers, 1]
    multiplier: nn.Parameter  # [layers, 1]
    w1: nn.Parameter  # [layers, 1, hidden]
    b1: nn.Parameter  # [layers, hidden]
    w2: nn.Parameter  # [layers, hidden, heads]
    b2: nn.Parameter  # [layers, heads]

    def psi(self, x: Tensor) -> Tensor:
        return torch.log1p((x * self.c[self.layer]).abs())

    def bias(self, rows: Rows) -> Tensor:
        layer, dtype = self.layer, self.c.dtype
        threshold = self.config.get("init_length", self.config["train_length"])
        i = self.places(rows.positions).to(dtype)
        reach = torch.maximum(i, (self.multiplier[layer] * threshold).abs())
        u = (
            self.psi(self.distance(rows).to(dtype))
            / (self.psi(reach) + self.config["eps"])[:, None]
        )
        hidden = F.relu(u[..., None] @ self.w1[layer] + self.b1[layer])
        return (hidden @ self.w2[layer] + self.b2[layer]).permute(2, 0, 1)
