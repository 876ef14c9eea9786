//! The laws of log-n, what they count, and how a config names them.

use super::*;

#[test]
fn other_laws_of_the_number_of_keys() {
    let at = |law: LogN| [2.0, 4.0, 8.0].map(|s| law.factor(128.0 * s));
    let info = |head_dim| at(LogN::Info { head_dim, train_length: 128 });
    let shifted = |a| at(LogN::Shifted { a, train_length: 128 });
    let expected = [
        (info(32), [1.058, 1.111, 1.159]),
        (info(64), [1.063, 1.122, 1.177]),
        (shifted(0.0), [1.143, 1.286, 1.429]),
        (shifted(128.0), [384.0, 640.0, 1152.0].map(|n: f64| n.ln() / 256f64.ln())),
    ];
    for (found, expected) in expected {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 6e-4), "{found:?} {expected:?}");
    }
    for law in [LogN::Info { head_dim: 32, train_length: 128 }, LogN::Shifted { a: 9.0, train_length: 128 }] {
        assert!([1.0, 127.0, 128.0].iter().all(|&keys| (law.factor(keys) - 1.0).abs() < 1e-12), "{law:?}");
    }
}

#[test]
fn entropies_as_published() {
    // A row of n equal keys has the entropy ln n.
    let of = |keys: usize| {
        let row = Tensor::<4>::full([1, 1, 1, keys], 1.0 / keys as f64, &Device::flex());
        f64::from(entropy_factor(row).into_scalar::<f32>())
    };
    let polynomial = |h: f64| -0.037 * h.powi(4) + 0.481 * h.powi(3) - 2.3 * h.powi(2) + 4.917 * h - 1.791;
    assert!((of(1) - 1.0).abs() < 1e-6);
    for keys in [4, 16, 256] {
        let expected = polynomial((keys as f64).ln()).max(1.0);
        assert!((of(keys) - expected).abs() < 1e-4 && expected > 1.0, "{keys}: {} {expected}", of(keys));
    }
    let sharp = Tensor::<4>::from_floats([[[[0.9, 0.1]]]], &Device::flex());
    assert!((entropy_factor(sharp).into_scalar::<f32>() - 1.0).abs() < 1e-6);
}

#[test]
fn learned_factors_start_at_one_on_average_and_count_visible_keys() {
    let device = Device::flex();
    let learned = LearnedLogN::new(2, 3, true, 64, &Init::new(0, &device));
    let of = |mask| -> Vec<f32> {
        let factors = learned.factors(1, &Positions::range(0..64), &(0..64), mask, &device);
        factors.into_data().try_to_vec().unwrap()
    };
    let all = of(Mask::default());
    assert_eq!(all.len(), 3 * 64);
    let mean = all.iter().sum::<f32>() / all.len() as f32;
    assert!((mean - 1.0).abs() < 1e-5, "{mean}");
    // 0.312 is 1 / mean of ln n up to 64.
    assert!((all[63] - 0.312 * 64f32.ln()).abs() < 1e-3 && all[0].abs() < 1e-6, "{}", all[63]);
    let windowed = of(Mask { window: Some(4), sinks: 2 });
    assert_eq!(windowed[..6], all[..6]);
    assert_eq!(windowed[63], all[5], "four keys of the window and two sinks");
    // Drawn positions say nothing of the keys, but for which of them a window hides.
    let drawn = Positions::drawn(1, vec![3.0, 90.0, 91.0]);
    assert_eq!(visible_keys(&drawn, &(0..3), Mask::default()), [1.0, 2.0, 3.0]);
    assert_eq!(visible_keys(&drawn, &(1..3), Mask { window: Some(2), sinks: 0 }), [1.0, 2.0]);
    // Of two sinks, a text that begins at 1 has one, and one that begins at 500 none.
    let mask = Mask { window: Some(3), sinks: 2 };
    for (first, expected) in [(0.0, 5.0), (1.0, 4.0), (500.0, 3.0)] {
        let row: Vec<f64> = (0..9).map(|place| first + f64::from(place)).collect();
        let seen = row.iter().filter(|key| !mask.hides(row[8], **key)).count();
        assert_eq!(
            (visible_keys(&Positions::drawn(1, row), &(8..9), mask), seen as f64),
            (vec![expected], expected)
        );
    }
}

#[test]
fn a_config_says_true_false_learned_or_a_table() {
    let read =
        |text: &str| toml::from_str::<toml::Table>(text).unwrap()["log_n"].clone().try_into::<LogNKind>();
    for (text, kind) in [
        ("log_n = true", LogNKind::Fixed),
        ("log_n = false", LogNKind::Off),
        ("log_n = 'adaptive'", LogNKind::Adaptive),
        ("log_n = 'power'", LogNKind::Power),
        ("log_n = 'learned'", LogNKind::Learned(LearnedKeys { scale_bias: false })),
        ("log_n = { kind = 'learned' }", LogNKind::Learned(LearnedKeys { scale_bias: false })),
        (
            "log_n = { kind = 'learned', scale_bias = true }",
            LogNKind::Learned(LearnedKeys { scale_bias: true }),
        ),
    ] {
        assert_eq!(read(text), Ok(kind));
        assert_eq!(toml::Value::try_from(kind).unwrap().try_into::<LogNKind>(), Ok(kind));
    }
    for wrong in ["log_n = 'yes'", "log_n = 1", "log_n = { kind = 'fixed' }", "log_n = { scale_bias = true }"]
    {
        assert!(read(wrong).unwrap_err().message().contains("true, false, \"learned\", \"adaptive\""));
    }
}
