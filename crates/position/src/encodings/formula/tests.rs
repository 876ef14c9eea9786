//! What a formula may hold.

use super::*;
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
fn zero_to_a_learned_power_is_that_to_the_same_number() {
    let own = |start| bias(&*build(&formula("n^a", start), &Device::flex()), &Positions::range(0..2))[0];
    assert_eq!([own(0.0), own(0.5)].map(f32::to_bits), [1.0f32, 0.0].map(f32::to_bits));
    assert!(message_of(&formula("n^a", -1.0)).contains("it is inf at distance 0"));
    assert!(message_of(&formula("a * n^(-1)", 1.0)).contains("it is inf at distance 0"));
}
