class Floater(Encoding):
    """Positions as the path of a learned flow, in Runge-Kutta steps."""

    # One flow, or one for each layer; the last row of w1 is that of the time.
    start: nn.Parameter  # [layers, width]
    w1: nn.Parameter  # [flows (width + 1), hidden]
    b1: nn.Parameter  # [flows hidden]
    w2: nn.Parameter  # [flows hidden, width]
    b2: nn.Parameter  # [flows width]

    def embed(self, x: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        c, width = self.config, x.shape[-1]
        w1, b1 = self.w1.view(-1, width + 1, c["hidden"]), self.b1.view(-1, c["hidden"])
        w2, b2 = self.w2.view(-1, c["hidden"], width), self.b2.view(-1, width)
        flow = 0 if c["shared"] else self.layer
        w1, b1, w2, b2 = w1[flow], b1[flow], w2[flow], b2[flow]

        def slope(time: Tensor | float, p: Tensor) -> Tensor:
            timed = time / c["scale"] * w1[width]
            return torch.tanh(p @ w1[:width] + timed + b1) @ w2 + b2

        def step(p: Tensor, time: Tensor | float, h: Tensor | float) -> Tensor:
            k1 = slope(time, p)
            k2 = slope(time + h / 2, p + k1 * (h / 2))
            k3 = slope(time + h / 2, p + k2 * (h / 2))
            k4 = slope(time + h, p + k3 * h)
            return p + (k1 + 2 * (k2 + k3) + k4) * (h / 6)

        at = self.places(positions)
        h = c["delta"] / c["steps"]
        path = [self.start[self.layer]]
        for whole in range(int(at.max())):
            p = path[-1]
            for done in range(c["steps"]):
                p = step(p, (whole * c["steps"] + done) * h, h)
            path.append(p)
        p = torch.stack(path)[at.long()]
        part = (at - at.floor())[:, None].to(p.dtype)
        if part.any():  # a shorter way from the whole position before
            first = at.floor()[:, None].to(p.dtype) * c["delta"]
            for done in range(c["steps"]):
                p = step(p, first + done * h * part, h * part)
        return x + p
