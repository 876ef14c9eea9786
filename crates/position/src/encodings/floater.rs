//! `floater`: positions as the path of a learned flow.
//!
//! `dp/dt = f(t, p) = tanh([p, t / scale] w1 + b1) w2 + b2`, `p_layer(0) = start[layer]`, position k at time
//! `t = k delta` (Liu et al. 2020, arXiv:2003.09229, equations 5 and 6); layer l adds `p_l` to its input.
//! start `[layers, width]` from N(0, 0.02); w1 `[width + 1, hidden]` and w2 `[hidden, width]` from N(0, 0.02), b1
//! and b2 at 0. All layers share one flow, as published; with `shared = false` each has its own, and the
//! parameters hold one below the other.
//!
//! Integrated by the classical Runge-Kutta method (RK4) with `steps` steps for each position: sequential in
//! the position, and slow for long texts. Times may be uneven: a position in between is reached from the whole
//! one before it by as many, shorter steps, so that its vector does not depend on which others are asked.
//! Interpolated by s, position m is read at m / s.

use crate::prelude::*;
use crate::table::indices;

keys! {
    /// Keys of `kind = "floater"`.
    pub struct Config {
        /// Time from one position to the next.
        pub delta: f64 = 0.1,
        /// Integration steps for each position.
        pub steps: usize = 1,
        /// Time is divided by this before the network reads it.
        pub scale: f64 = 10.0,
        /// Width of the hidden layer.
        pub hidden: usize = 32,
        /// Whether all layers follow one flow, from starts of their own.
        pub shared: bool = true,
    }
}

/// The starts and the flow.
#[derive(Module, Debug)]
pub struct Floater {
    /// `[layers, width]`.
    pub start: Param<Tensor<2>>,
    /// `[flows (width + 1), hidden]`; flows is 1, or the number of layers.
    pub w1: Param<Tensor<2>>,
    /// `[flows hidden]`.
    pub b1: Param<Tensor<1>>,
    /// `[flows hidden, width]`.
    pub w2: Param<Tensor<2>>,
    /// `[flows width]`.
    pub b2: Param<Tensor<1>>,
    #[module(skip)]
    config: Config,
    /// The vectors of every layer at the first positions, where they are computed once for many readings.
    #[module(skip)]
    made: Vec<Tensor<2>>,
}

impl Configure for Config {
    type Encoding = Floater;
    const KIND: &'static str = "floater";
    const DESCRIPTION: &'static str =
        "positions as the path of a learned flow, one start per layer (FLOATER)";
    const SOURCE: &'static str = "arXiv:2003.09229";
    const FORMULA: &'static str = "x'_m = x_m + e(0.1 m), before every block, e(0) learned for each\n\
        ∂e/∂t = tanh((e, t/10) W_1 + β_1) W_2 + β_2, W and β learned, RK4 with one step for each position";
    const PYTORCH: Option<&'static str> = Some(include_str!("floater.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: the flow goes on");
    const VARIANTS: &'static [&'static str] = &["shared = false"];

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_positive(section, "delta", self.delta)?;
        check_positive(section, "scale", self.scale)?;
        check_at_least(section, "steps", self.steps, 1)?;
        check_hidden(section, self.hidden)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Floater {
        let Dimensions { layers, width, .. } = *dimensions;
        let flows = if self.shared { 1 } else { layers };
        Floater {
            start: init.normal("position.floater.start", [layers, width], 0.02),
            w1: init.normal("position.floater.w1", [flows * (width + 1), self.hidden], 0.02),
            b1: init.constant([flows * self.hidden], 0.0),
            w2: init.normal("position.floater.w2", [flows * self.hidden, width], 0.02),
            b2: init.constant([flows * width], 0.0),
            config: self.clone(),
            made: Vec::new(),
        }
    }
}

/// The flow of one layer.
struct Flow {
    /// `[width, hidden]`.
    of_p: Tensor<2>,
    /// `[1, hidden]`.
    of_time: Tensor<2>,
    /// `[1, hidden]`.
    b1: Tensor<2>,
    /// `[hidden, width]`.
    w2: Tensor<2>,
    /// `[1, width]`.
    b2: Tensor<2>,
}

impl Flow {
    /// f of p `[rows, width]`, given the time over `scale` times `of_time`, `[rows, hidden]`.
    fn at(&self, timed: Tensor<2>, p: Tensor<2>) -> Tensor<2> {
        let first = p.matmul(self.of_p.clone()) + timed + self.b1.clone();
        first.tanh().matmul(self.w2.clone()) + self.b2.clone()
    }
}

/// One Runge-Kutta step of length `h` from p; `flow` is given the time since then.
fn step(h: f64, p: &Tensor<2>, flow: impl Fn(f64, Tensor<2>) -> Tensor<2>) -> Tensor<2> {
    let at = |share: f64, k: &Tensor<2>| p.clone() + k.clone().mul_scalar(share * h);
    let k1 = flow(0.0, p.clone());
    let k2 = flow(h / 2.0, at(0.5, &k1));
    let k3 = flow(h / 2.0, at(0.5, &k2));
    let k4 = flow(h, at(1.0, &k3));
    at(1.0 / 6.0, &(k1 + (k2 + k3).mul_scalar(2.0) + k4))
}

impl Floater {
    /// The flow that a layer follows.
    fn flow(&self, layer: usize) -> Flow {
        let Config { hidden, shared, .. } = self.config;
        let width = self.w2.dims()[1];
        let flow = if shared { 0 } else { layer };
        let w1 = self.w1.val().slice_dim(0, flow * (width + 1)..(flow + 1) * (width + 1));
        let units = flow * hidden..(flow + 1) * hidden;
        Flow {
            of_p: w1.clone().slice_dim(0, 0..width),
            of_time: w1.slice_dim(0, width..=width),
            b1: self.b1.val().slice_dim(0, units.clone()).unsqueeze(),
            w2: self.w2.val().slice_dim(0, units),
            b2: self.b2.val().slice_dim(0, flow * width..(flow + 1) * width).unsqueeze(),
        }
    }

    /// The vectors of a layer at the whole positions 0 to `last` or further, `[positions, width]`.
    fn vectors(&self, layer: usize, last: usize) -> Tensor<2> {
        if let Some(made) = self.made.get(layer).filter(|made| made.dims()[0] > last) {
            return made.clone();
        }
        let Config { delta, steps, scale, .. } = self.config;
        let h = delta / steps as f64;
        let flow = self.flow(layer);
        let mut p = self.start.val().slice_dim(0, layer..=layer);
        let mut all = vec![p.clone()];
        for done in 0..last * steps {
            let time = done as f64 * h;
            p = step(h, &p, |since, p| flow.at(flow.of_time.clone().mul_scalar((time + since) / scale), p));
            if (done + 1) % steps == 0 {
                all.push(p.clone());
            }
        }
        Tensor::cat(all, 0)
    }

    /// The vectors of a layer at `positions`, given those of the whole positions before them,
    /// `[positions, width]` both.
    fn between(&self, layer: usize, positions: &[f64], mut p: Tensor<2>) -> Tensor<2> {
        let Config { delta, steps, scale, .. } = self.config;
        let (flow, device, count) = (self.flow(layer), p.device(), positions.len());
        let column = |of: &dyn Fn(f64) -> f64| -> Tensor<2> {
            let values: Vec<f64> = positions.iter().map(|&m| of(m)).collect();
            upload(&values, &device).reshape([count, 1])
        };
        // Each row has a time of its own to go: it is measured in shares of that.
        let spans = column(&|m| m.fract() * delta);
        let h = 1.0 / steps as f64;
        for done in 0..steps {
            p = step(h, &p, |since, p| {
                let share = done as f64 * h + since;
                let times = column(&|m| (m.floor() + m.fract() * share) * delta / scale);
                flow.at(times * flow.of_time.clone(), p) * spans.clone()
            });
        }
        p
    }

    /// The vectors of a layer at the positions, `[rows, length, width]`.
    pub fn path(&self, layer: usize, positions: &Positions) -> Tensor<3> {
        let at = positions.values();
        let last = at.iter().copied().fold(0.0, f64::max) as usize;
        let vectors = self.vectors(layer, last);
        let width = vectors.dims()[1];
        let whole = vectors.clone().select(0, indices(at.iter().map(|&m| m as usize), &vectors.device()));
        let read = if at.iter().all(|m| m.fract() == 0.0) { whole } else { self.between(layer, at, whole) };
        read.reshape([positions.rows(), positions.length(), width])
    }
}

impl Position for Floater {
    fn parameters(&self) -> Vec<ParameterSpec> {
        // A start is a vector of each layer; the flows' matrices are stacked by rows.
        vec![
            ParameterSpec::undecayed("start", &["layers", "width"]),
            ParameterSpec::decayed("w1", &["flows (width+1)", "hidden"]),
            ParameterSpec::undecayed("b1", &["flows hidden"]),
            ParameterSpec::decayed("w2", &["flows hidden", "width"]),
            ParameterSpec::undecayed("b2", &["flows width"]),
        ]
    }

    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, _before: &mut Option<Tensor<3>>) -> Tensor<3> {
        hidden + self.path(rows.layer, rows.positions)
    }

    fn check(&self, positions: &Positions) -> Result<()> {
        match positions.values().iter().find(|&&m| m < 0.0) {
            Some(position) => Err(Error::usage(format!(
                "`floater` has no vector for position {position}: its path starts at position 0"
            ))
            .hint("use positions of at least 0, whole or not")),
            None => Ok(()),
        }
    }

    fn prepare(&mut self, text: &Positions) {
        let layers = self.start.dims()[0];
        let last = text.values().last().map_or(0, |&m| m as usize);
        self.made = (0..layers).map(|layer| self.vectors(layer, last)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{dimensions, random};

    /// A flow that bends, with weights far from 0.
    fn floater(config: &Config) -> Floater {
        let fresh = config.build(&dimensions(), &Init::new(0, &Device::flex()));
        let matrix = |name: &str, old: &Param<Tensor<2>>| {
            Param::from_tensor(random::<2>(name, old.dims(), &Device::flex()).mul_scalar(0.5))
        };
        Floater { w1: matrix("w1", &fresh.w1), w2: matrix("w2", &fresh.w2), ..fresh }
    }

    fn path(floater: &Floater, layer: usize, positions: &[f64]) -> Vec<f32> {
        read(floater, layer, &Positions::explicit(1, positions))
    }

    fn read(floater: &Floater, layer: usize, positions: &Positions) -> Vec<f32> {
        floater.check(positions).unwrap();
        floater.path(layer, positions).into_data().try_to_vec().unwrap()
    }

    fn furthest(a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn uneven_times_lie_on_the_same_path() {
        // The same times, as positions in between and as whole ones of a shorter delta.
        let coarse = floater(&Config { delta: 0.4, steps: 8, ..Config::default() });
        let fine = floater(&Config { delta: 0.1, steps: 2, ..Config::default() });
        let uneven = [0.25, 0.5, 1.0, 1.75, 4.25, 7.5];
        let on_path = path(&coarse, 1, &uneven);
        assert!(furthest(&on_path, &path(&fine, 1, &uneven.map(|m| 4.0 * m))) < 1e-5);
        assert!(furthest(&on_path, &path(&coarse, 1, &uneven.map(f64::floor))) > 1e-2, "it moves in between");
        // A position knows nothing of the others.
        assert!(furthest(&on_path[8..16], &path(&coarse, 1, &[0.5])) == 0.0);
        assert!(coarse.check(&Positions::explicit(1, vec![-0.5])).is_err());
        // Interpolated, whole positions lie in between.
        let longer = Positions::explicit(1, uneven.map(|m| 4.0 * m)).over(4.0);
        let mut prepared = coarse.clone();
        assert!(furthest(&on_path, &read(&prepared, 1, &longer)) == 0.0);
        prepared.prepare(&Positions::range(0..31).over(4.0));
        assert!(furthest(&on_path, &read(&prepared, 1, &longer)) == 0.0);
    }

    #[test]
    fn layers_follow_flows_of_their_own() {
        let shared = floater(&Config::default());
        let own = floater(&Config { shared: false, ..Config::default() });
        let alike = |floater: &Floater, starts: &Tensor<2>| {
            let floater = Floater { start: Param::from_tensor(starts.clone()), ..floater.clone() };
            furthest(&path(&floater, 0, &[0.0, 9.0]), &path(&floater, 1, &[0.0, 9.0]))
        };
        let one_start = shared.start.val().slice_dim(0, 0..1).repeat_dim(0, 2);
        assert!(alike(&shared, &one_start) == 0.0 && alike(&own, &one_start) > 1e-2);
        // Twice the same flow is the shared one.
        let twice = |p: &Param<Tensor<2>>| Param::from_tensor(p.val().repeat_dim(0, 2));
        let (w1, w2) = (twice(&shared.w1), twice(&shared.w2));
        let copied = Floater { w1, w2, start: shared.start.clone(), ..own };
        for layer in 0..2 {
            let at = [0.0, 3.5, 9.0];
            assert!(furthest(&path(&copied, layer, &at), &path(&shared, layer, &at)) == 0.0);
        }
    }
}
