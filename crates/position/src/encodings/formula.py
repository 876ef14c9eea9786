class Formulas(Encoding):
    """A bias that the config writes as a formula."""

    def bias(self, rows: Rows) -> Tensor | float:
        c, i = self.config, self.places(rows.positions)[:, None]
        if "bias" not in c:
            return 0.0
        sizes = {
            "heads": c["heads"],
            "layers": c["layers"],
            "L": c["train_length"],
            "d": c["head_dim"],
        }
        values = {
            name: i.new_tensor(size)
            for name, size in (sizes | {"layer": self.layer}).items()
        }
        values |= {
            "n": self.distance(rows),
            "i": i,
            "j": torch.minimum(i, self.places(rows.positions)),
        }
        values["head"] = torch.arange(1, c["heads"] + 1, device=i.device)[:, None, None]
        values |= {"pi": i.new_tensor(math.pi), "e": i.new_tensor(math.e)}
        for index, name in enumerate(sorted(c.get("parameters", {}))):
            value = self.get_parameter(f"values.{index}")
            values[name] = value[min(self.layer, len(value) - 1), :, None, None]

        def function(of: Callable[..., Tensor]) -> Callable[..., Tensor]:
            return lambda *x: of(*(torch.as_tensor(y, device=i.device) for y in x))

        names = [
            "exp",
            "log",
            "log2",
            "log1p",
            "sqrt",
            "abs",
            "sin",
            "cos",
            "tanh",
            "sigmoid",
        ]
        names += ["floor", "ceil", "pow"]
        functions = {name: function(getattr(torch, name)) for name in names}
        functions |= {"softplus": function(F.softplus), "ln": functions["log"]}
        functions |= {"min": function(torch.minimum), "max": function(torch.maximum)}
        functions["clamp"] = function(torch.clamp)
        functions["round"] = function(lambda x: (x.abs() + 0.5).floor() * x.sign())
        # Names are looked up: a parameter may be called as a word of Python.
        text = re.sub(r"\b[A-Za-z_]\w*", r'of["\g<0>"]', c["bias"].replace("^", "**"))
        bias = eval(text, {"of": values | functions})  # noqa: S307
        return torch.as_tensor(bias).to(rows.input.dtype)
