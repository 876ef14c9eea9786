//! The grid of a study as a map: a sign for each run, which fills as runs end.

/// Signs in a line.
const WIDE: usize = 64;
/// Lines at most; more runs than fit share signs.
const HIGH: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Finished,
    Waiting,
    AtWork,
    Failed,
}

/// Every run of a plan, in its order: the seeds of a combination stand side by side.
#[derive(Clone, Debug)]
pub(super) struct Map {
    states: Vec<State>,
    /// Runs of a combination.
    seeds: usize,
}

impl Map {
    /// The runs of `waiting` are to be done, all others of `count` are finished.
    pub(super) fn new(count: usize, seeds: usize, waiting: &[usize]) -> Self {
        let mut states = vec![State::Finished; count];
        for &index in waiting {
            states[index] = State::Waiting;
        }
        Self { states, seeds: seeds.max(1) }
    }

    pub(super) fn set(&mut self, index: usize, state: State) {
        self.states[index] = state;
    }

    /// The map in lines. Where there are more runs than signs, a sign stands for several runs, and shows one that failed
    /// or is at work before the others.
    pub(super) fn text(&self) -> String {
        let share = self.states.len().div_ceil(WIDE * HIGH).max(1);
        let signs: Vec<char> = self.states.chunks(share).map(sign).collect();
        // Combinations stand apart where a line holds some of them.
        let group = if share == 1 && self.seeds < WIDE / 2 { self.seeds } else { WIDE };
        let groups: Vec<String> = signs.chunks(group).map(|group| group.iter().collect()).collect();
        let in_line = if group == WIDE { 1 } else { WIDE / (group + 1) };
        let lines: Vec<String> = groups.chunks(in_line).map(|groups| groups.join(" ")).collect();
        lines.join("\n")
    }
}

fn sign(states: &[State]) -> char {
    let finished = states.iter().filter(|state| **state == State::Finished).count();
    match states.iter().max() {
        Some(State::Failed) => '×',
        Some(State::AtWork) => '▸',
        _ if finished == states.len() => '█',
        _ if 2 * finished >= states.len() => '▓',
        _ if finished > 0 => '░',
        _ => '·',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_a_sign_and_combinations_stand_apart() {
        let mut map = Map::new(6, 3, &[1, 2, 3, 4, 5]);
        assert_eq!(map.text(), "█·· ···");
        map.set(1, State::AtWork);
        map.set(3, State::Failed);
        map.set(5, State::Finished);
        assert_eq!(map.text(), "█▸· ×·█");
    }

    #[test]
    fn lines_end_between_combinations() {
        let map = Map::new(70, 5, &[]);
        let lines: Vec<String> = map.text().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], ["█████"; 10].join(" "));
        assert_eq!(lines[1], ["█████"; 4].join(" "));
    }

    #[test]
    fn many_runs_share_signs() {
        let mut map = Map::new(10_000, 5, &(0..5_000).collect::<Vec<_>>());
        let text = map.text();
        assert!(
            text.lines().count() <= HIGH && text.lines().all(|line| line.chars().count() <= WIDE),
            "{text}"
        );
        assert!(text.starts_with("··") && text.ends_with("██"), "{text}");
        map.set(9_999, State::Failed);
        assert!(map.text().ends_with("█×"));
        let half = Map::new(2 * WIDE * HIGH, 1, &(0..2 * WIDE * HIGH).step_by(2).collect::<Vec<_>>());
        assert!(half.text().chars().all(|sign| sign == '▓' || sign == '\n'));
    }

    #[test]
    fn nothing_has_no_sign() {
        assert_eq!(Map::new(0, 3, &[]).text(), "");
    }
}
