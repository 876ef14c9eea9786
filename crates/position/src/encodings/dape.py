class Dape(Encoding):
    """A small network of all heads' scores and of KERPLE's biases."""

    p: nn.Parameter  # [layers, heads]
    a: nn.Parameter  # [layers, heads]
    w1: nn.Parameter  # [layers, 2 heads, hidden]
    b1: nn.Parameter  # [layers, hidden]
    w2: nn.Parameter  # [layers, hidden, heads]
    b2: nn.Parameter  # [layers, heads]

    def scores(
        self, scores: Tensor, q: Tensor, k: Tensor, scale: float, rows: Rows
    ) -> Tensor:
        layer = self.layer
        p, a = (x[layer, :, None, None].clamp_min(0.01) for x in (self.p, self.a))
        bias = -p * torch.log1p(a * self.distance(rows).to(a.dtype))
        both = torch.cat([scores, bias.expand_as(scores)], 1).permute(0, 2, 3, 1)
        hidden = F.leaky_relu(both @ self.w1[layer] + self.b1[layer], 0.01)
        out = (hidden @ self.w2[layer] + self.b2[layer]).permute(0, 3, 1, 2)
        return scores + bias + out
