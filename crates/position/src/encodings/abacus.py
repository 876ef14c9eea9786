class Abacus(Encoding):
    """A learned vector for the place of a digit in its number.

    In training, longwave adds a random number to the places of a step.
    """

    table: nn.Parameter  # [table_size, width]; row 0 for tokens that are no digit

    def embed(self, x: Tensor, ids: Tensor, positions: Tensor) -> Tensor:
        if self.layer > 0:
            return x
        is_digit = torch.isin(ids, ids.new_tensor(self.config["digits"]))
        count = is_digit.long().cumsum(1)
        before = count.masked_fill(is_digit, 0).cummax(1).values
        return x + self.table[(count - before).masked_fill(~is_digit, 0)]
