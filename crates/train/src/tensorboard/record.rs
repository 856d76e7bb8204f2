//! Records as TensorFlow's files hold them: the length and the content, each behind or before its checksum.

/// The polynomial of CRC-32C (Castagnoli), bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// What is added to a checksum after it was turned, so that a checksum of checksums is no checksum.
const MASK: u32 = 0xa282_ead8;

/// A record with this content: eight bytes of length, their checksum, the content, its checksum.
pub(super) fn framed(content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(content.len() + 16);
    record.extend(length);
    record.extend(masked(&length).to_le_bytes());
    record.extend(content);
    record.extend(masked(content).to_le_bytes());
    record
}

/// The contents of the records in a file, up to the first that is cut off or damaged.
pub(super) fn contents(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = checked(bytes, 8)?;
        let length = u64::from_le_bytes(length.try_into().ok()?);
        let (content, rest) = checked(rest, usize::try_from(length).ok()?)?;
        bytes = rest;
        Some(content)
    })
}

/// The first bytes, whose checksum follows them, and what comes after both; `None` if the checksum is another one.
fn checked(bytes: &[u8], length: usize) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_at_checked(length)?;
    let (sum, rest) = rest.split_first_chunk()?;
    (u32::from_le_bytes(*sum) == masked(found)).then_some((found, rest))
}

fn masked(bytes: &[u8]) -> u32 {
    checksum(bytes).rotate_right(15).wrapping_add(MASK)
}

/// CRC-32C, bit by bit: an event has a few hundred bytes.
fn checksum(bytes: &[u8]) -> u32 {
    let mut rest = u32::MAX;
    for &byte in bytes {
        rest ^= u32::from(byte);
        for _ in 0..8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
        }
    }
    !rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_up_to_the_first_that_is_damaged() {
        let whole = [framed(b"one"), framed(b""), framed(b"three")].concat();
        assert_eq!(contents(&whole).collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
        for cut in 0..whole.len() {
            // A record of `n` bytes takes 16 more.
            let complete = [19, 35].iter().filter(|&&end| cut >= end).count();
            assert_eq!(contents(&whole[..cut]).count(), complete, "{cut}");
            let mut damaged = whole.clone();
            damaged[cut] ^= 1;
            assert_eq!(contents(&damaged).count(), complete, "{cut}");
        }
        let mut endless = u64::MAX.to_le_bytes().to_vec();
        endless.extend(masked(&endless).to_le_bytes());
        assert_eq!(contents(&endless).count(), 0);
    }

    /// RFC 3720, section B.4, and the check value of the catalogue of checksums.
    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(checksum(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(checksum(&rising), 0x46dd_794e);
    }
}
