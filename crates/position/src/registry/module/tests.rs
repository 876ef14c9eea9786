use super::*;
use crate::encoding::Configure;
use crate::encodings::alibi::Config;
use crate::init::Init;
use crate::laws::values;
use crate::parameter::shapes;
use crate::testing::dimensions;

struct Doubler;

impl ModuleMapper for Doubler {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|x| x.mul_scalar(2.0))
    }
}

#[test]
fn a_module_without_its_type_has_the_same_parameters() {
    let config = Config { learned_slopes: true, ..Config::default() };
    let alibi = config.build(&dimensions(), &Init::new(0, &Device::flex()));
    let registered = Encoding::new("alibi", alibi.clone());
    assert_eq!(shapes(&registered), shapes(&alibi));
    assert_eq!(Module::num_params(&registered), Module::num_params(&alibi));
    assert_eq!(registered.devices(), alibi.devices());
    let slopes = |encoding: &Encoding| values(encoding).concat();
    let doubled: Vec<f32> = slopes(&registered).iter().map(|slope| 2.0 * slope).collect();
    let trained = registered.clone().train();
    assert_eq!(slopes(&registered.map(&mut Doubler)), doubled);
    assert_eq!(slopes(&trained.valid()).len(), doubled.len());
}
