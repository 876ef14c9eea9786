//! Any one encoding: its parameters and hooks, whatever its type.
//!
//! burn's visitors and mappers are generic over the number of axes of a parameter, so they cannot be called through a trait
//! object. A parameter leaves the module as `dyn Any`, and gets its type back where the visitor is known.

use crate::encoding::Position;
use crate::frequency::Rotation;
use crate::positions::Positions;
use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor, Param,
};
use burn::tensor::{Device, Tensor};
use std::any::Any;
use std::ops::{Deref, DerefMut};

/// Runs a block for each number of axes that a parameter may have, as a constant.
macro_rules! for_each_rank {
    ($D:ident, $block:block) => {
        for_each_rank!(@ $D, $block, 0 1 2 3 4 5 6 7 8);
    };
    (@ $D:ident, $block:block, $($axes:literal)*) => {
        $({
            const $D: usize = $axes;
            $block
        })*
    };
}

/// An encoding of any type, with its parameters.
pub(super) trait AnyModule: Position + std::fmt::Debug + Any + Send + Sync {
    fn duplicate(&self) -> Box<dyn AnyModule>;
    fn visit_any(&self, visitor: &mut dyn AnyVisitor);
    fn map_any(self: Box<Self>, mapper: &mut dyn AnyMapper) -> Box<dyn AnyModule>;
    fn devices_any(&self, devices: Devices) -> Devices;
    fn changed_any(self: Box<Self>, change: Change<'_>) -> Box<dyn AnyModule>;
    fn valid_any(&self) -> Box<dyn AnyModule>;
}

/// What burn does to a whole module.
pub(super) enum Change<'a> {
    ToDevice(&'a Device),
    Fork(&'a Device),
    Train,
    Materialize,
}

impl<M: Module + Position + Sync + 'static> AnyModule for M {
    fn duplicate(&self) -> Box<dyn AnyModule> {
        Box::new(self.clone())
    }

    fn visit_any(&self, visitor: &mut dyn AnyVisitor) {
        self.visit(&mut Untyped(visitor));
    }

    fn map_any(self: Box<Self>, mapper: &mut dyn AnyMapper) -> Box<dyn AnyModule> {
        Box::new(self.map(&mut Untyped(mapper)))
    }

    fn devices_any(&self, devices: Devices) -> Devices {
        self.collect_devices(devices)
    }

    fn changed_any(self: Box<Self>, change: Change<'_>) -> Box<dyn AnyModule> {
        Box::new(match change {
            Change::ToDevice(device) => self.to_device(device),
            Change::Fork(device) => self.fork(device),
            Change::Train => self.train(),
            Change::Materialize => self.materialize(),
        })
    }

    fn valid_any(&self) -> Box<dyn AnyModule> {
        Box::new(self.valid())
    }
}

/// A visitor of any type.
pub(super) trait AnyVisitor {
    fn param(&mut self, param: &dyn Any);
    fn enter(&mut self, name: &str, container: &str);
    fn exit(&mut self, name: &str, container: &str);
}

/// A mapper of any type; a mapped parameter has the type that it had before.
pub(super) trait AnyMapper {
    fn param(&mut self, param: Box<dyn Any>) -> Box<dyn Any>;
    fn enter(&mut self, name: &str, container: &str);
    fn exit(&mut self, name: &str, container: &str);
}

/// What walks through the module: it passes parameters on without their type.
struct Untyped<'a, W: ?Sized>(&'a mut W);

/// Fails to compile where a parameter has more axes than burn's own modules and [`for_each_rank`] take.
const fn check_axes(axes: usize) {
    assert!(axes <= 8, "a parameter of an encoding has at most 8 axes");
}

impl ModuleVisitor for Untyped<'_, dyn AnyVisitor + '_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        const { check_axes(D) };
        self.0.param(param);
    }

    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.0.enter(name, container_type);
    }

    fn exit_module(&mut self, name: &str, container_type: &str) {
        self.0.exit(name, container_type);
    }
}

impl ModuleMapper for Untyped<'_, dyn AnyMapper + '_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        const { check_axes(D) };
        let mapped = self.0.param(Box::new(param));
        *mapped.downcast().unwrap_or_else(|_| unreachable!("a mapper keeps the type of a parameter"))
    }

    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.0.enter(name, container_type);
    }

    fn exit_module(&mut self, name: &str, container_type: &str) {
        self.0.exit(name, container_type);
    }
}

/// What the model's visitor or mapper looks like from the module: parameters get their type back.
struct Typed<'a, W>(&'a mut W);

impl<V: ModuleVisitor> AnyVisitor for Typed<'_, V> {
    fn param(&mut self, param: &dyn Any) {
        for_each_rank!(D, {
            if let Some(param) = param.downcast_ref::<Param<Tensor<D>>>() {
                self.0.visit_float(param);
            }
        });
    }

    fn enter(&mut self, name: &str, container: &str) {
        self.0.enter_module(name, container);
    }

    fn exit(&mut self, name: &str, container: &str) {
        self.0.exit_module(name, container);
    }
}

impl<M: ModuleMapper> AnyMapper for Typed<'_, M> {
    fn param(&mut self, mut param: Box<dyn Any>) -> Box<dyn Any> {
        for_each_rank!(D, {
            param = match param.downcast::<Param<Tensor<D>>>() {
                Ok(param) => return Box::new(self.0.map_float(*param)),
                Err(param) => param,
            };
        });
        param
    }

    fn enter(&mut self, name: &str, container: &str) {
        self.0.enter_module(name, container);
    }

    fn exit(&mut self, name: &str, container: &str) {
        self.0.exit_module(name, container);
    }
}

/// Any one encoding, with its parameters. They are floats: visitors and mappers meet nothing else of its module.
#[derive(Debug)]
pub struct Encoding {
    kind: &'static str,
    name: &'static str,
    module: Box<dyn AnyModule>,
    interpolation: f64,
}

impl Encoding {
    /// An encoding of a type.
    pub fn new<M: Module + Position + Sync + 'static>(kind: &'static str, module: M) -> Self {
        let path = std::any::type_name::<M>();
        let name = path.rsplit_once("::").map_or(path, |(_, name)| name);
        Self { kind, name, module: Box::new(module), interpolation: 1.0 }
    }

    /// `position.kind`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The name of its type, which stands in the names of its parameters.
    pub fn type_name(&self) -> &'static str {
        self.name
    }

    /// Reads every position divided by `scale`; `false` where the encoding cannot.
    pub fn interpolate(&mut self, scale: f64) -> bool {
        let can = self.module.interpolates();
        if can {
            self.interpolation *= scale;
            if let Some(frequencies) = self.module.frequencies() {
                let slower = frequencies.map(|_, f| f / scale);
                self.module.set_frequencies(slower);
            }
        }
        can
    }

    /// What [`interpolate`](Self::interpolate) divides positions by, 1 as trained.
    pub fn interpolation(&self) -> f64 {
        self.interpolation
    }

    /// Positions of a text as its hooks are given them.
    pub fn reads(&self, positions: &Positions) -> Positions {
        positions.over(self.interpolation)
    }

    /// The rotation of a layer at positions of a text.
    pub fn rotation(&self, layer: usize) -> Option<Rotation> {
        self.module.rotation(layer).map(|rotation| rotation.over(self.interpolation))
    }

    /// The encoding as its type; `None` where it is of another.
    pub fn get<M: 'static>(&self) -> Option<&M> {
        (&*self.module as &dyn Any).downcast_ref()
    }

    /// The same, to be changed.
    pub fn get_mut<M: 'static>(&mut self) -> Option<&mut M> {
        (&mut *self.module as &mut dyn Any).downcast_mut()
    }

    fn with(self, module: impl FnOnce(Box<dyn AnyModule>) -> Box<dyn AnyModule>) -> Self {
        Self { module: module(self.module), ..self }
    }

    fn changed(self, change: Change<'_>) -> Self {
        self.with(|module| module.changed_any(change))
    }
}

impl Deref for Encoding {
    type Target = dyn Position;

    fn deref(&self) -> &Self::Target {
        &*self.module
    }
}

impl DerefMut for Encoding {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.module
    }
}

impl Clone for Encoding {
    fn clone(&self) -> Self {
        Self { module: self.module.duplicate(), ..*self }
    }
}

/// What kind of module an encoding is, for burn's visitors.
const CONTAINER: &str = "Encoding";

impl Module for Encoding {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.module.devices_any(devices)
    }

    fn fork(self, device: &Device) -> Self {
        self.changed(Change::Fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        self.changed(Change::ToDevice(device))
    }

    fn train(self) -> Self {
        self.changed(Change::Train)
    }

    fn valid(&self) -> Self {
        Self { module: self.module.valid_any(), ..*self }
    }

    fn materialize(self) -> Self {
        self.changed(Change::Materialize)
    }

    fn visit<Visitor: ModuleVisitor>(&self, visitor: &mut Visitor) {
        visitor.enter_module(self.name, CONTAINER);
        self.module.visit_any(&mut Typed(visitor));
        visitor.exit_module(self.name, CONTAINER);
    }

    fn map<Mapper: ModuleMapper>(self, mapper: &mut Mapper) -> Self {
        let name = self.name;
        mapper.enter_module(name, CONTAINER);
        let mapped = self.with(|module| module.map_any(&mut Typed(mapper)));
        mapper.exit_module(name, CONTAINER);
        mapped
    }
}

impl ModuleDisplayDefault for Encoding {
    fn content(&self, content: Content) -> Option<Content> {
        content.set_top_level_type(self.kind).optional()
    }

    fn num_params(&self) -> usize {
        Module::num_params(self)
    }
}

impl ModuleDisplay for Encoding {}

#[cfg(test)]
mod tests;
