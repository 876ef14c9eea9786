//! What a formula may hold.

use super::*;
use crate::laws::values;
use crate::testing::{bias, build, message_of};

fn formula(bias: &str, start: f64) -> String {
    format!("kind = 'formula'\nbias = '{bias}'\nparameters = {{ a = {start:?} }}")
}

#[test]
fn a_base_below_0_needs_an_exponent_that_is_not_learned() {
    let message = message_of(&formula("-0.01 * (n - 8)^a", 2.0));
    assert!(
        message.contains("it is NaN at distance 0 (query at 0, key at 0) in layer 0, head 1"),
        "{message}"
    );
    assert!(message.contains("hint: ") && message.contains("no base may be below 0"), "{message}");
    // A learned base below 0 with an exponent for each distance.
    assert!(message_of(&formula("a^n", -0.5)).contains("it is NaN at distance 0"));
    assert!(message_of(&formula("min(log(-a), 2) * n", 1.0)).contains("it is NaN at distance 0"));
    for (accepted, start) in [("-a * (n - 8)^2", 0.01), ("-abs(n - 8)^a", 2.0), ("a^2", -2.0)] {
        build(&formula(accepted, start), &Device::flex());
    }
}

#[test]
fn what_is_no_parameter_is_told_what_one_is() {
    for parameter in ["'1'", "{ value = 1.0 }", "{ start = 1.0, mni = 0.0 }"] {
        let text = format!("kind = 'formula'\nbias = '-a * n'\nparameters = {{ a = {parameter} }}");
        let message = message_of(&text);
        let allowed = "is not allowed: it must be a number, or a table with `start` (a number or a formula) and, where \
                       wanted, `per_layer`, `per_head`, `min`, `max` and `decay`";
        assert!(message.contains("parameters.a = ") && message.contains(allowed), "{message}");
        assert!(message.contains("hint: `{ start = 1.0, min = 0.0 }` is"), "{message}");
    }
}

#[test]
fn zero_to_a_learned_power_is_that_to_the_same_number() {
    let own = |start| bias(&*build(&formula("n^a", start), &Device::flex()), &Positions::range(0..2))[0];
    assert_eq!([own(0.0), own(0.5)].map(f32::to_bits), [1.0f32, 0.0].map(f32::to_bits));
    assert!(message_of(&formula("n^a", -1.0)).contains("it is inf at distance 0"));
    assert!(message_of(&formula("a * n^(-1)", 1.0)).contains("it is inf at distance 0"));
}

#[test]
fn a_bound_is_a_number() {
    for (bound, value) in [("min", "nan"), ("max", "inf")] {
        let parameter = format!("{{ start = 0.1, {bound} = {value} }}");
        let message =
            message_of(&format!("kind = 'formula'\nbias = '-a * n'\nparameters = {{ a = {parameter} }}"));
        let key = format!("`position.parameters.a.{bound} = ");
        assert!(message.starts_with(&key) && message.contains("a bound is a finite number"), "{message}");
        assert!(message.ends_with(&format!("hint: leave `{bound}` out for no bound")), "{message}");
    }
}

#[test]
fn a_shared_parameter_starts_at_one_value() {
    let text = |start: &str, shared: &str| {
        format!(
            "kind = 'formula'\nbias = '-a * n'\nparameters = {{ a = {{ start = '{start}', {shared} = false }} }}"
        )
    };
    for (start, shared, name) in
        [("2^(-8*head/heads)", "per_head", "head"), ("layer + 1", "per_layer", "layer")]
    {
        let message = message_of(&text(start, shared));
        let key = format!(
            "`position.parameters.a.start = \"{start}\"` is not allowed: `{name}` cannot stand in it"
        );
        assert!(message.starts_with(&key), "{message}");
        let hint = format!("hint: write it without `{name}`, or remove `{shared} = false`");
        assert!(message.ends_with(&hint), "{message}");
    }
    // Of 2 layers and 2 heads.
    for (start, shared, expected) in
        [("head/heads", "per_layer", [0.5f32, 1.0]), ("layer + 1/layers", "per_head", [0.5, 1.5])]
    {
        let built = build(&text(start, shared), &Device::flex());
        assert_eq!(values(&built), [expected], "{start}");
    }
}
