class SinkLogit(Encoding):
    """A learned logit that takes its share of the softmax for no value."""

    sink: nn.Parameter  # [layers, heads]

    def sink_logit(self) -> Tensor:
        return self.sink[self.layer]
