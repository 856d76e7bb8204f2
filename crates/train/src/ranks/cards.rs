//! Which card each rank computes on, and how the cards' sums are added up.

use dapple_plan::spec::DeviceChoice;
use serde::{Deserialize, Serialize};

/// The cards that a rank could use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct HeldCards {
    /// What tells each card from all others, in the order of their numbers.
    cards: Vec<String>,
    /// Why there are none.
    problem: Option<String>,
    /// Whether the rank has NCCL, and of the first rank an identifier by which the others find it, in bytes.
    linked: bool,
    identifier: Vec<u8>,
}

impl HeldCards {
    /// What this rank has, as far as the plan asks for it. The first rank makes the identifier.
    #[cfg(feature = "cuda")]
    pub(super) fn of(choice: &DeviceChoice, first: bool) -> Self {
        use dapple_engine::cuda::{CudaLink, card_identities};
        if on_processors(choice) {
            return Self::default();
        }
        let (cards, problem) = match card_identities() {
            Ok(cards) if cards.is_empty() => (cards, Some("there is no card".to_owned())),
            Ok(cards) => (cards, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let identifier = match first && !cards.is_empty() {
            true => CudaLink::identifier().map(Vec::from).unwrap_or_default(),
            false => Vec::new(),
        };
        Self { cards, problem, linked: CudaLink::is_possible(), identifier }
    }

    #[cfg(not(feature = "cuda"))]
    pub(super) fn of(choice: &DeviceChoice, _: bool) -> Self {
        let problem = (!on_processors(choice)).then(|| "this program was built without CUDA".to_owned());
        Self { problem, ..Self::default() }
    }

    /// The number of each rank's card; `None` if all compute on their processors. `all` are the ranks in order, each with the machine that it is on:
    /// the k-th rank of a machine takes its k-th card, or that of the list that was given, and if a single one was given, that one.
    ///
    /// # Errors
    /// A rank without the card that was asked for, because ranks compute all on cards or all on processors.
    fn choose(choice: &DeviceChoice, all: &[(&str, &Self)]) -> Result<Option<Vec<usize>>, (usize, String)> {
        let before = |rank: usize| all[..rank].iter().filter(|(machine, _)| *machine == all[rank].0).count();
        let mut chosen = Vec::with_capacity(all.len());
        for (rank, (_, held)) in all.iter().enumerate() {
            let (count, place) = (held.cards.len(), before(rank));
            let card = match choice {
                DeviceChoice::Cpu | DeviceChoice::Auto => return Ok(None),
                DeviceChoice::Cuda(number) => *number as usize,
                DeviceChoice::AllCards => place,
                DeviceChoice::Cards(list) => match list.numbers().nth(place) {
                    Some(number) => number as usize,
                    None => {
                        let problem =
                            format!("{choice} has no card for it, the {}th of its machine", place + 1);
                        return Err((rank, problem));
                    }
                },
            };
            if card >= count {
                let problem = held.problem.clone().unwrap_or_else(|| format!("{count} cards"));
                let problem = format!(
                    "there is no cuda:{card} for it ({problem}); ranks compute all on cards or all on processors"
                );
                return Err((rank, problem));
            }
            chosen.push(card);
        }
        Ok(Some(chosen))
    }

    /// The card of one of several ranks, and the identifier by which its card and the others are joined; `None` if all compute on their processors.
    ///
    /// # Errors
    /// As [`HeldCards::choose`]; all ranks find it out alike.
    pub(super) fn card(
        choice: &DeviceChoice,
        all: &[(&str, &Self)],
        rank: usize,
    ) -> Result<Option<RankCard>, (usize, String)> {
        let Some(chosen) = Self::choose(choice, all)? else { return Ok(None) };
        let mut used: Vec<&String> =
            all.iter().zip(&chosen).map(|((_, held), &card)| &held.cards[card]).collect();
        used.sort();
        let shared = used.windows(2).any(|pair| pair[0] == pair[1]);
        let linked = !shared && all.iter().all(|(_, held)| held.linked);
        let identifier = all.first().and_then(|(_, held)| held.identifier.first_chunk()).copied();
        Ok(Some(RankCard { number: chosen[rank], identifier: identifier.filter(|_| linked) }))
    }
}

/// Whether ranks compute on their processors. They take cards only if a plan names them.
fn on_processors(choice: &DeviceChoice) -> bool {
    matches!(choice, DeviceChoice::Cpu | DeviceChoice::Auto)
}

/// The card of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankCard {
    /// Its number on the rank's machine.
    pub(crate) number: usize,
    /// By what NCCL finds the other ranks' cards; `None` if hosts add up the cards' sums, because two ranks share a card or one has no NCCL.
    pub(crate) identifier: Option<[u8; 128]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(cards: &[&str]) -> HeldCards {
        let problem = cards.is_empty().then(|| "the CUDA driver was not found".to_owned());
        let cards = cards.iter().map(|&card| card.to_owned()).collect();
        HeldCards { cards, problem, linked: true, identifier: vec![7; 128] }
    }

    fn numbers(choice: &str, all: &[(&str, &HeldCards)]) -> Result<Option<Vec<usize>>, (usize, String)> {
        let choice = choice.parse().unwrap();
        let cards: Result<Vec<_>, _> =
            (0..all.len()).map(|rank| HeldCards::card(&choice, all, rank)).collect();
        let cards = cards.map(|cards| cards.into_iter().map(|card| card.map(|card| card.number)).collect());
        assert_eq!(cards, HeldCards::choose(&choice, all));
        cards
    }

    #[test]
    fn each_rank_of_a_machine_takes_a_card_of_it() {
        let (four, two, none) = (held(&["a", "b", "c", "d"]), held(&["e", "f"]), held(&[]));
        let ranks = [("one", &four), ("two", &two), ("one", &four), ("two", &two)];
        for (choice, expected) in [
            ("cpu", None),
            ("auto", None),
            ("cuda:all", Some(vec![0, 0, 1, 1])),
            ("cuda", Some(vec![0; 4])),
            ("cuda:1", Some(vec![1; 4])),
            ("cuda:1,0", Some(vec![1, 1, 0, 0])),
        ] {
            assert_eq!(numbers(choice, &ranks).unwrap(), expected, "{choice}");
        }
        // Ranks share a card only if a single one is named.
        let three = [("two", &two); 3];
        for choice in ["cuda:all", "cuda:1,0"] {
            assert_eq!(numbers(choice, &three).unwrap_err().0, 2, "{choice}");
        }
        // All ranks compute on cards, or none does.
        let mixed = [("one", &four), ("three", &none)];
        assert_eq!(numbers("auto", &mixed).unwrap(), None);
        for choice in ["cuda", "cuda:all", "cuda:0,1"] {
            let (rank, problem) = numbers(choice, &mixed).unwrap_err();
            assert!(rank == 1 && problem.contains("the CUDA driver was not found"), "{problem}");
        }
        assert!(numbers("cuda:5", &ranks).unwrap_err().1.contains("no cuda:5 for it (4 cards)"));
    }

    #[test]
    fn cards_are_linked_unless_two_ranks_share_one_or_a_library_is_missing() {
        let linked = |choice: &str, all: &[(&str, &HeldCards)]| {
            let card = HeldCards::card(&choice.parse().unwrap(), all, 1).unwrap().unwrap();
            card.identifier.is_some()
        };
        let two = held(&["a", "b"]);
        let ranks = [("one", &two), ("one", &two)];
        assert!(linked("cuda:all", &ranks) && !linked("cuda:0", &ranks));
        // Two machines, or two views of one, may each call another card the first.
        let (first, second) = (held(&["a"]), held(&["b"]));
        assert!(linked("cuda:0", &[("one", &first), ("one", &second)]));
        let bare = HeldCards { linked: false, ..second.clone() };
        assert!(!linked("cuda:0", &[("one", &first), ("one", &bare)]));
        let unnamed = HeldCards { identifier: Vec::new(), ..first };
        assert!(!linked("cuda:0", &[("one", &unnamed), ("one", &second)]));
    }
}
