class Kerple(Encoding):
    """A penalty that is a logarithm or a power of the distance."""

    p: nn.Parameter  # [layers, heads]
    a: nn.Parameter  # [layers, heads]

    def bias(self, rows: Rows) -> Tensor:
        n = self.distance(rows)
        p = self.p[self.layer, :, None, None].clamp_min(0.01)
        a = self.a[self.layer, :, None, None].clamp_min(0.01)
        if self.config["variant"] == "log":
            return -p * torch.log1p(a * n.to(a.dtype))
        power = torch.exp(p.clamp_max(2) * n.clamp_min(1e-9).log().to(a.dtype))
        return -a * power * (n > 0)
