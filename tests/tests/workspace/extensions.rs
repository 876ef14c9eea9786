//! The laws of extensions hold for every example of every extension. Nothing is listed here: a new extension is tested from
//! its first line. Deliberately wrong extensions show that each law can fail. `causality.rs` and `cache.rs` read every
//! encoding with every example.

use longwave_bench::laws::extensions::{Apply, LAWS};
use longwave_position::extension::{Band, Example, Shifts, change_frequencies};
use longwave_position::{Reading, extensions};

#[test]
fn every_extension_keeps_its_promises() {
    for kind in extensions::kinds().iter().map(|entry| entry.kind) {
        for law in LAWS {
            law.check_kind(kind).unwrap_or_else(|error| panic!("{kind}: {}: {error}", law.name));
        }
    }
}

#[test]
fn every_law_fails_for_a_wrong_extension() {
    let slowed = |reading: &Reading, scale: f64| {
        let mut changed = reading.clone();
        change_frequencies("wrong", &mut changed, |frequencies| Ok(frequencies.map(|_, f| f / scale)))?;
        Ok(changed)
    };
    let nothing: Apply<'_> = &|reading, _| Ok(reading.clone());
    let plain = Example::new("");
    let wrong: [(&str, Example, Apply<'_>); 9] = [
        // It slows short texts too.
        ("short texts are read as promised", plain.clone(), &|reading, _| slowed(reading, 2.0)),
        // It changes nothing, and says that it does.
        ("short texts are read as promised", plain.clone().changes_short_texts(), nothing),
        ("bands change as promised", plain.clone().bands(Band::Same, Band::ByScale), nothing),
        ("bands change as promised", plain.clone(), &|reading, lengths| slowed(reading, lengths.scale())),
        ("bands change as promised", plain.clone().bands(Band::Between, Band::More), &|reading, lengths| {
            slowed(reading, lengths.scale())
        }),
        // It stretches q and k: the factor that it reports is not the one that it applies.
        ("rotations keep norms", plain.clone(), &|reading, _| {
            let mut changed = reading.clone();
            change_frequencies("wrong", &mut changed, |frequencies| Ok(frequencies.map(|_, _| f64::NAN)))?;
            Ok(changed)
        }),
        // No row sees an earlier one, so a change of a token reaches nothing.
        ("attention is causal", plain.clone(), &|reading, _| {
            let mut changed = reading.clone();
            longwave_position::extension::set_window(&mut changed, 1, 0);
            Ok(changed)
        }),
        // The first positions are read otherwise.
        ("shifts change what is promised", plain.clone(), &|reading, _| {
            let mut changed = reading.clone();
            longwave_position::extension::set_window(&mut changed, 8, 4);
            Ok(changed)
        }),
        ("shifts change what is promised", plain.shifts(Shifts::Multiples(8)), nothing),
    ];
    for law in LAWS {
        assert!(
            wrong.iter().any(|(broken, ..)| *broken == law.name),
            "no wrong extension breaks `{}`",
            law.name
        );
    }
    for (index, (broken, example, apply)) in wrong.into_iter().enumerate() {
        let law = LAWS.iter().find(|law| law.name == broken).unwrap();
        assert!(law.check(&example, apply).is_err(), "wrong extension {index} is not noticed");
    }
}
