use super::*;
use crate::config::DataConfig;
use crate::corpus;
use crate::testing::folder;

/// What the documents of a folder have in common, of no more than `most` remembered.
fn overlap(files: &[(String, String)], most: [usize; 2]) -> Overlap {
    let folder = folder(files);
    let config = DataConfig::new(folder.path().to_str().unwrap());
    let corpus = corpus::find(&config, "data.corpus").unwrap();
    let documents = Documents { corpus: &corpus, config: &config };
    let rule = documents.split_rule().unwrap();
    let mut comparison = Comparison::new(most, &documents, &rule, &mut |_| ()).unwrap();
    let visited = documents.visit(&rule, &[Split::Train], &mut |event| {
        match event {
            Event::Piece { bytes, .. } => comparison.train(bytes),
            Event::End { .. } => comparison.train_end(),
            Event::Read(_) => {}
        }
        Ok(())
    });
    visited.unwrap();
    assert!(comparison.documents.len() <= most[0] && comparison.held_out.len() <= most[1]);
    comparison.finish()
}

fn words(range: std::ops::Range<usize>) -> String {
    range.map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ")
}

fn files(texts: &[(&str, String)]) -> Vec<(String, String)> {
    texts
        .iter()
        .enumerate()
        .map(|(index, (split, text))| (format!("{split}/{index:03}.txt"), text.clone()))
        .collect()
}

#[test]
fn equal_documents_and_shares_are_counted() {
    let texts = [
        ("train", words(0..100)),
        ("train", words(100..200)),
        // Once more than the first time, and a line end makes another document.
        ("train", words(100..200)),
        ("train", words(100..200)),
        ("train", words(100..200) + "\n"),
        ("valid", words(300..330)),
        ("valid", words(1000..1020)),
        ("test", words(300..330)),
        // 88 n-grams of 100 words, all of them in training.
        ("test", words(100..200)),
        // 112 of 124 words: 50 - 12 = 38 of them are in training, since the others reach into new words.
        ("test", words(0..50) + " " + &words(2000..2074)),
        // Seven n-grams are too few to be judged, and twelve words have none.
        ("test", words(0..19)),
        ("test", words(0..12)),
    ];
    let found = overlap(&files(&texts), MOST);
    let test =
        HeldOut { grams: 18 + 88 + 112 + 7, found: 88 + 38 + 7, judged: 3, contained: 1, most: [1, 88, 88] };
    assert_eq!(
        found,
        Overlap {
            documents_every: 1,
            repeated: [2, 0, 0],
            in_train: [0, 0, 1],
            test_in_valid: 1,
            grams_every: 1,
            held_out: [HeldOut { grams: 18 + 8, found: 0, judged: 2, contained: 0, most: [0, 18, 0] }, test],
        }
    );
}

#[test]
fn a_document_is_contained_from_a_share_of_its_n_grams_on() {
    // 20 n-grams of 32 words, 14 of them of the first 26.
    for (shared, contained) in [(26, 1), (25, 0)] {
        let test = words(0..shared) + " " + &words(500..532 - shared);
        let found = overlap(&files(&[("train", words(0..200)), ("test", test)]), MOST);
        let expected = [0, 20, shared as u64 - 12];
        assert_eq!((found.held_out[1].contained, found.held_out[1].most), (contained, expected));
    }
}

/// Where not all can be remembered, what is compared is a fair sample.
#[test]
fn a_sample_has_the_shares_of_the_whole() {
    let mut texts = Vec::new();
    for document in 0..400 {
        let own = words(1000 * document..1000 * document + 112);
        texts.push(("train", own.clone()));
        // Every second one is there twice, every fourth is a test document too, and every eighth half of one.
        texts.extend((document % 2 == 0).then(|| ("train", own.clone())));
        texts.extend((document % 4 == 0).then_some(("test", own)));
        let half = || {
            words(1000 * document..1000 * document + 62)
                + " "
                + &words(1000 * document + 500..1000 * document + 550)
        };
        texts.extend((document % 8 == 1).then(|| ("test", half())));
    }
    let whole = overlap(&files(&texts), MOST);
    assert_eq!((whole.repeated, whole.in_train, whole.test_in_valid), ([200, 0, 0], [0, 0, 100], 0));
    let [_, test] = whole.held_out;
    assert_eq!((test.grams, test.found, test.judged, test.contained), (15_000, 12_500, 150, 100));

    let part = overlap(&files(&texts), [200, 3000]);
    let every = (part.documents_every, part.grams_every);
    assert_eq!(every, (4, 8), "750 documents, and 15,000 n-grams");
    let close = |part: u64, every: u64, whole: u64| {
        let ratio = (part * every) as f64 / whole as f64;
        assert!((0.7..1.3).contains(&ratio), "{part} in {every} of {whole}");
    };
    close(part.repeated[0], every.0, 200);
    close(part.in_train[2], every.0, 100);
    let [_, test] = part.held_out;
    close(test.grams, every.1, 15_000);
    close(test.found, every.1, 12_500);
    let share = test.contained as f64 / test.judged as f64;
    assert!((0.6..0.8).contains(&share), "{share} of documents, where it is two thirds");
}

#[test]
fn documents_of_one_file_and_a_text_that_is_cut_are_compared() {
    let text = words(0..400) + "\n";
    let found = overlap(&[("one.txt".to_owned(), text.repeat(10))], MOST);
    // The last 5% before the last 5%, and these, are half of what comes nine times before them.
    for held_out in found.held_out {
        assert_eq!((held_out.judged, held_out.contained), (1, 1));
        assert!(held_out.found + 2 >= held_out.grams && held_out.grams > 170, "{held_out:?}");
    }
    let line =
        |line: usize| format!("{{\"text\": \"{}\"}}\n", words(100 * (line % 20)..100 * (line % 20) + 40));
    let lines = (0..40).map(line).collect::<Vec<_>>().concat();
    let found = overlap(&[("one.jsonl".to_owned(), lines)], MOST);
    // 20 texts twice: 2 documents are held out for each split.
    let across: u64 = found.in_train.iter().sum();
    let within: u64 = found.repeated.iter().sum();
    assert!(across > 0 && across + 2 * found.test_in_valid <= 4 && within <= 18, "{found:?}");
    assert_eq!(found.held_out.map(|it| (it.grams, it.judged)), [(2 * 28, 2); 2]);
}
