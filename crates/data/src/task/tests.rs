use super::*;

/// Every kind that the schema lists.
fn all() -> Vec<TaskKind> {
    let schema = schemars::schema_for!(TaskKind).to_value();
    let kinds = schema["oneOf"].as_array().unwrap().iter().map(|kind| kind["const"].clone());
    let kinds: Vec<TaskKind> = kinds.map(|kind| serde_json::from_value(kind).unwrap()).collect();
    assert_eq!(kinds.len(), 28);
    kinds
}

/// What stands before each answer of one sequence, and the answer.
pub(super) fn answers(task: &TaskConfig, tokens: usize, index: u64) -> Vec<(String, String)> {
    let episode = task.episode(&mut Stream::new(7, "test", index), tokens);
    let text = String::from_utf8(episode.tokens).unwrap();
    let of = |answer: &Range<usize>| (text[..answer.start].to_owned(), text[answer.clone()].to_owned());
    episode.answers.iter().map(of).collect()
}

pub(super) fn text(task: &TaskConfig, tokens: usize, index: u64) -> String {
    String::from_utf8(task.episode(&mut Stream::new(7, "test", index), tokens).tokens).unwrap()
}

#[test]
fn every_task_fits_every_length_and_uses_it() {
    for kind in all() {
        let task = TaskConfig::new(kind);
        for tokens in (task.smallest()..task.shortest() + 40).chain([129, 1025]) {
            for index in 0..5 {
                let episode = task.episode(&mut Stream::new(0, "test", index), tokens);
                let length = episode.tokens.len();
                let ends = episode.answers.iter().flat_map(|it| [it.start, it.end]);
                assert!(ends.clone().is_sorted_by(|a, b| a < b), "{kind:?}");
                assert!(ends.min().unwrap() > 0 && episode.answers.last().unwrap().end == length, "{kind:?}");
                assert!(length <= tokens, "{kind:?}: {length} of {tokens}");
                // Operations on a stack shrink it; nothing else leaves much of the room unused.
                if tokens > 1000 && kind != TaskKind::StackManipulation {
                    assert!(length + 8 > tokens, "{kind:?}: {length} of {tokens}");
                }
            }
        }
        let error = task.check_length("train.length", task.shortest() - 2).unwrap_err();
        assert!(error.message().contains(&task.name()), "{error}");
        task.check_length("train.length", task.shortest() - 1).unwrap();
    }
}

/// What the rule says of a prompt, worked out from its text.
fn expected(kind: TaskKind, prompt: &str) -> String {
    let given = prompt.trim_end_matches('=');
    let value = |bits: &str| bits.chars().rev().fold(0u128, |v, bit| 2 * v + u128::from(bit == '1'));
    let little = |number: u128, count: usize| -> String {
        (0..count).map(|place| if number >> place & 1 == 1 { '1' } else { '0' }).collect()
    };
    match kind {
        TaskKind::Copy => given.to_owned(),
        TaskKind::DuplicateString => given.to_owned() + given,
        TaskKind::ReverseString => given.chars().rev().collect(),
        TaskKind::OddsFirst => {
            let of = |rest| given.chars().enumerate().filter(move |(i, _)| i % 2 == rest).map(|(_, c)| c);
            of(0).chain(of(1)).collect()
        }
        TaskKind::BucketSort => ('a'..='z').flat_map(|c| given.matches(c).collect::<Vec<_>>()).collect(),
        TaskKind::MissingDuplicate => {
            let half = given.len() / 2;
            let place = given.find('?').unwrap();
            assert!(place >= half);
            given[place - half..=place - half].to_owned()
        }
        TaskKind::EvenPairs => {
            let changes = given.as_bytes().windows(2).filter(|pair| pair[0] != pair[1]).count();
            u8::from(changes.is_multiple_of(2)).to_string()
        }
        TaskKind::ParityCheck => u8::from(given.matches('b').count().is_multiple_of(2)).to_string(),
        TaskKind::CycleNavigation => {
            let place = given.matches('+').count() as i64 - given.matches('-').count() as i64;
            place.rem_euclid(5).to_string()
        }
        TaskKind::BinaryAddition => {
            let (a, b) = given.split_once('+').unwrap();
            little(value(a) + value(b), a.len() + 1)
        }
        TaskKind::BinaryMultiplication => {
            let (a, b) = given.split_once('*').unwrap();
            little(value(a) * value(b), 2 * a.len())
        }
        TaskKind::ComputeSqrt => {
            let number = u128::from_str_radix(given, 2).unwrap();
            format!("{:0width$b}", number.isqrt(), width = given.len().div_ceil(2))
        }
        TaskKind::Passkey => {
            let place = prompt.find("the pass key is ").unwrap() + "the pass key is ".len();
            assert_eq!(prompt.matches("the pass key is ").count(), 2);
            prompt[place..place + 5].to_owned()
        }
        TaskKind::Needle => {
            assert_eq!(prompt.matches('#').count(), 2);
            let place = prompt.find('#').unwrap();
            prompt[place + 1..place + 2].to_owned()
        }
        TaskKind::Induction => {
            let query = &prompt[prompt.len() - 1..];
            assert_eq!(prompt.matches(query).count(), 2, "{prompt}");
            let place = prompt.find(query).unwrap();
            prompt[place + 1..place + 2].to_owned()
        }
        TaskKind::FixedOffset => given[given.len() - 8..given.len() - 7].to_owned(),
        TaskKind::AssocRecall => {
            let (told, key) = prompt.split_once('?').unwrap();
            assert_eq!(told.split(' ').filter(|pair| pair.starts_with(key)).count(), 1);
            told.split(' ').find(|pair| pair.starts_with(key)).unwrap()[2..].to_owned()
        }
        TaskKind::DupKeyRecall => {
            let (told, key) = prompt.split_once('?').unwrap();
            let place = told.rfind(key).unwrap();
            told[place + 1..place + 2].to_owned()
        }
        TaskKind::StackManipulation => stack(given),
        TaskKind::ModularArithmetic | TaskKind::ModularArithmeticBrackets => {
            Parser { text: given.as_bytes(), at: 0 }.sum().rem_euclid(5).to_string()
        }
        TaskKind::SolveEquation => {
            let (left, right) = prompt.trim_end_matches(':').split_once('=').unwrap();
            let holds = |x: &i64| {
                let text = left.replace('x', &x.to_string());
                Parser { text: text.as_bytes(), at: 0 }.sum().rem_euclid(5) == right.parse::<i64>().unwrap()
            };
            let solutions: Vec<i64> = (0..5).filter(holds).collect();
            assert_eq!(solutions.len(), 1, "{prompt}");
            solutions[0].to_string()
        }
        _ => looked_up(kind, prompt),
    }
}

/// The same for tasks that look up what was said before.
fn looked_up(kind: TaskKind, prompt: &str) -> String {
    let given = prompt.trim_end_matches('=');
    match kind {
        TaskKind::FlipFlop => {
            let written = prompt.as_bytes().chunks(2).rfind(|pair| pair[0] == b'w').unwrap();
            assert!(prompt.ends_with('r') && prompt.starts_with('w'), "{prompt}");
            char::from(written[1]).to_string()
        }
        TaskKind::Mqar => {
            let told = prompt.find(&prompt[prompt.len() - 1..]).unwrap();
            assert!(told < 16, "eight pairs begin the text: {prompt}");
            prompt[told + 1..told + 2].to_owned()
        }
        TaskKind::VariableTracking => {
            let mut name = prompt[prompt.len() - 2..prompt.len() - 1].to_owned();
            while name.as_bytes()[0].is_ascii_lowercase() {
                let told = prompt.find(&format!("{name}=")).unwrap();
                name = prompt[told + 2..told + 3].to_owned();
            }
            name
        }
        TaskKind::SelectiveCopy => given.replace('.', ""),
        TaskKind::Argmax => {
            let largest = given.bytes().step_by(2).max().unwrap();
            assert_eq!(given.bytes().filter(|&byte| byte == largest).count(), 1);
            let place = given.find(char::from(largest)).unwrap();
            given[place + 1..place + 2].to_owned()
        }
        TaskKind::NBack => prompt[prompt.len() - 5..prompt.len() - 4].to_owned(),
        _ => panic!("{kind:?} has no rule"),
    }
}

fn stack(given: &str) -> String {
    let (stack, actions) = given.split_once('|').unwrap();
    let mut stack = stack.to_owned();
    for action in actions.trim_end_matches('=').chars() {
        if action == '-' {
            stack.pop();
        } else {
            stack.push(action);
        }
    }
    stack.chars().rev().chain(['.']).collect()
}

/// Evaluates sums of products of digits and brackets.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn next(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn sum(&mut self) -> i64 {
        let mut value = self.product();
        while matches!(self.next(), b'+' | b'-') {
            let sign = if self.next() == b'+' { 1 } else { -1 };
            self.at += 1;
            value += sign * self.product();
        }
        value.rem_euclid(5)
    }

    fn product(&mut self) -> i64 {
        let mut value = self.atom();
        while self.next() == b'*' {
            self.at += 1;
            value = (value * self.atom()).rem_euclid(5);
        }
        value
    }

    fn atom(&mut self) -> i64 {
        let first = self.next();
        self.at += 1;
        if first == b'-' {
            return -self.atom();
        }
        if first != b'(' {
            return i64::from(first - b'0');
        }
        let value = self.sum();
        self.at += 1;
        value
    }
}

#[test]
fn answers_follow_the_rule() {
    for kind in all() {
        let smallest = TaskConfig::new(kind).smallest();
        for tokens in smallest..smallest + 60 {
            for (prompt, answer) in answers(&TaskConfig::new(kind), tokens, tokens as u64) {
                assert_eq!(answer, expected(kind, &prompt), "{kind:?}: {prompt}");
            }
        }
    }
}

#[test]
fn a_batch_is_a_pure_function_and_scores_answers_only() {
    let task = TaskConfig::new(TaskKind::Copy);
    let batch = task.batch(1, 7, 16, 20).unwrap();
    assert_eq!(task.batch(1, 7, 16, 20).unwrap(), batch);
    assert_ne!(task.batch(1, 8, 16, 20).unwrap().inputs, batch.inputs);
    assert_ne!(task.batch(2, 7, 16, 20).unwrap().inputs, batch.inputs);
    assert_ne!(task.validation(0..16, 20).unwrap().inputs, batch.inputs);
    // Each for itself: as many as are read at once.
    let all = task.validation(3..9, 20).unwrap();
    let parts = [3..5, 5..6, 6..9].map(|numbers| task.validation(numbers, 20).unwrap());
    assert_eq!(all.inputs, parts.each_ref().map(|part| part.inputs.clone()).concat());
    assert_eq!(all.scored.unwrap(), parts.map(|part| part.scored.unwrap()).concat());
    let scored = batch.scored.unwrap();
    let mut sizes = Vec::new();
    for row in 0..16 {
        let text: Vec<u8> = batch.inputs[row * 20..(row + 1) * 20].iter().map(|&id| id as u8).collect();
        let targets: Vec<u8> = batch.targets[row * 20..(row + 1) * 20].iter().map(|&id| id as u8).collect();
        assert_eq!(text[1..], targets[..19]);
        let n = text.iter().position(|&byte| byte == b'=').unwrap();
        let answer: Vec<u8> =
            (0..20).filter(|place| scored[row * 20 + place]).map(|place| targets[place]).collect();
        assert_eq!(answer, text[..n]);
        assert!(targets[2 * n..].iter().all(|&byte| byte == PADDING));
        sizes.push(n);
    }
    sizes.sort_unstable();
    sizes.dedup();
    assert!(sizes.len() > 3, "lengths vary: {sizes:?}");
    let full = TaskConfig { sizes: Sizes::Full, ..task };
    let batch = full.batch(1, 7, 4, 20).unwrap();
    assert_eq!(batch.scored.unwrap().iter().filter(|&&scored| scored).count(), 4 * 10);
}

#[test]
fn questions_are_those_of_every_run() {
    let task = TaskConfig::new(TaskKind::Passkey);
    let questions = task.questions(Split::Test, 3, 128).unwrap();
    assert_eq!((questions.tokens.documents(), questions.answers.len()), (3, 3));
    for (document, answers) in questions.answers.iter().enumerate() {
        assert_eq!((questions.tokens.document(document).len(), answers.len()), (129, 1));
        assert_eq!(answers[0], 124..129);
    }
    let tokens = |questions: &Questions| questions.tokens.read(0..questions.tokens.len());
    assert_eq!(tokens(&task.questions(Split::Test, 3, 128).unwrap()), tokens(&questions));
    assert_ne!(tokens(&task.questions(Split::Valid, 3, 128).unwrap()), tokens(&questions));
    let other = TaskConfig { seed: 1, ..task };
    assert_ne!(tokens(&other.questions(Split::Test, 3, 128).unwrap()), tokens(&questions));
}

#[test]
fn a_sequence_has_no_more_pairs_than_keys() {
    let assoc = TaskConfig::new(TaskKind::AssocRecall);
    // Pairs of two keys: 26 * 26 of them, four tokens each, and the question and its answer. All but the last token is read.
    assert!(assoc.check_length("train.length", 2710).is_ok());
    let error = assoc.check_length("train.length", 2711).unwrap_err();
    assert!(error.message().contains("676 keys, enough for a length of 2710"), "{error}");
    assoc.check_length("x", recall::tokens(676) - 1).unwrap();
    let error = assoc.check_length("x", recall::tokens(676)).unwrap_err();
    assert!(error.message().contains("676 keys"), "{error}");
    let filled = TaskConfig { fill: Some(0.9), ..TaskConfig::new(TaskKind::Mqar) };
    let error = filled.check_length("train.length", 127).unwrap_err();
    assert!(error.message().contains("26 keys, and `fill` asks for 57 pairs"), "{error}");
}

#[test]
fn sequences_never_change() {
    // Runs that are stored resume, and rows that are stored compare, only as long as these stand.
    let copy = TaskConfig::new(TaskKind::Copy);
    let batch = copy.batch(0, 0, 1, 12).unwrap();
    let text: String = batch.inputs.iter().map(|&id| char::from(id as u8)).collect();
    assert_eq!(text, FIRST_ROW);
}
const FIRST_ROW: &str = "fhc=fhc\n\n\n\n\n";
