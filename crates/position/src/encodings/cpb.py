class Cpb(Encoding):
    """A small network of the distance."""

    w_out: nn.Parameter  # [layers, hidden, heads]
    b_out: nn.Parameter  # [layers, heads]

    def bias(self, rows: Rows) -> Tensor:
        n = self.distance(rows)
        n = torch.log1p(n) if self.config["variant"] == "log" else n
        y = n.to(self.w_out.dtype)[..., None]
        for index in range(self.config["depth"]):
            w, b = (self.get_parameter(f"{name}.{index}")[self.layer] for name in "wb")
            y = F.silu(y @ w + b)
        return (y @ self.w_out[self.layer] + self.b_out[self.layer]).permute(2, 0, 1)
