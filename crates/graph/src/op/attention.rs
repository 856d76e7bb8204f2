//! Multi-head attention.

use super::GraphOperation;
use crate::graph::Parameter;

/// Multi-head scaled dot-product attention of query, key and value: three inputs of `[tokens, features]`, or one of
/// `[tokens, 3 features]` that holds them side by side.
///
/// Behind the one input there may be another of `[tokens]`, by which attention is of a subset of the tokens: no token attends to one
/// whose number is zero. Such a token changes nothing of what the others become and has no gradient from it, both to the last bit, as
/// long as its own values are finite. At least one number must not be zero. The numbers themselves have no gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// The number of heads, which must divide the features.
    pub heads: usize,
}

impl GraphOperation for Attention {
    fn name(&self) -> &'static str {
        "Attention"
    }

    fn arity(&self) -> Option<usize> {
        None
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        let heads = self.heads;
        let divides = |features: usize| heads > 0 && features.is_multiple_of(heads);
        match *inputs {
            [&[tokens, packed]] if packed.is_multiple_of(3) && divides(packed / 3) => {
                Ok(vec![tokens, packed / 3])
            }
            [&[tokens, packed], &[numbers]]
                if numbers == tokens && packed.is_multiple_of(3) && divides(packed / 3) =>
            {
                Ok(vec![tokens, packed / 3])
            }
            [&[tokens, features], key @ &[_, width], value]
                if key == value && width == features && divides(features) =>
            {
                Ok(vec![tokens, features])
            }
            _ => Err(refuse(inputs, heads)),
        }
    }
}

fn refuse(inputs: &[&[usize]], heads: usize) -> String {
    match inputs {
        [query, key, value] => {
            format!("query {query:?}, key {key:?}, value {value:?} do not suit {heads} heads")
        }
        [packed] => format!("{packed:?} does not hold query, key and value of {heads} heads side by side"),
        [packed, numbers] => {
            format!("{packed:?} and {numbers:?} are not a subset of tokens for {heads} heads")
        }
        other => {
            format!("takes query, key and value, or one input that holds them, and was given {}", other.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_three_or_hold_three() {
        let shape = |inputs: &[&[usize]], heads| Attention { heads }.shape(inputs, &[]);
        assert_eq!(shape(&[&[5, 8], &[7, 8], &[7, 8]], 4), Ok(vec![5, 8]));
        assert_eq!(shape(&[&[5, 24]], 4), Ok(vec![5, 8]));
        assert_eq!(shape(&[&[5, 24], &[5]], 4), Ok(vec![5, 8]));
        for (inputs, heads) in [
            (&[&[5, 24][..], &[6]][..], 4),
            (&[&[5, 24], &[5, 1]], 4),
            (&[&[5, 24]], 3),
            (&[&[5, 25]], 1),
            (&[&[5, 8], &[7, 8]], 4),
            (&[&[5, 8], &[7, 8], &[6, 8]], 4),
            (&[&[5, 8], &[7, 4], &[7, 4]], 4),
            (&[&[5, 8], &[7, 8], &[7, 8]], 0),
        ] {
            shape(inputs, heads).unwrap_err();
        }
    }
}
