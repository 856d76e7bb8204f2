//! Tests of tables of users, and of what is drawn of a user's records.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::keys::{MasterKey, Purpose};
use crate::split::split_users;
use crate::statistics::{ALPHA, chi_square_accepts};
use crate::{DataError, Dataset, Image, Target, Values};
use dapple_geometry::Size;

/// Records that are known by names, or by nothing.
struct Named(Vec<&'static str>, bool);

impl Dataset for Named {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn classes(&self) -> u32 {
        2
    }

    fn channels(&self) -> usize {
        1
    }

    fn image_size(&self) -> Option<Size> {
        None
    }

    fn target(&self, _: usize) -> Result<Target, DataError> {
        Ok(Target::Class(0))
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let size = Size::new(1, 1).map_err(DataError::geometry("a test"))?;
        Image::new(size, 1, Values::Bytes(vec![record as u8])).ok_or(DataError::Record { record, records: 0 })
    }

    fn place(&self, record: usize) -> String {
        format!("photos/{}", self.0[record])
    }

    fn name(&self, record: usize) -> Option<String> {
        self.1.then(|| self.0[record].to_owned())
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        Ok(String::new())
    }
}

fn photos() -> Named {
    Named(vec!["cat/1.png", "cat/a, b.png", "dog/1.png", "dog/\"2\".png"], true)
}

fn decode(text: &str) -> Result<Users, DataError> {
    decode_users(text.as_bytes(), Path::new("users.csv"), &photos())
}

fn lists(users: &Users) -> Vec<&[usize]> {
    (0..users.len()).map(|user| users.records(user)).collect()
}

#[test]
fn tables_are_read_however_they_are_written() {
    for text in [
        "file,user\ncat/1.png,ann\n\"cat/a, b.png\",ben\ndog/1.png,ann\n\"dog/\"\"2\"\".png\",ben\n",
        // With a mark of the byte order, carriage returns, spaces, empty lines and other columns.
        "\u{feff}User , note,FILE\r\nben,\"1,2\n3\",\"cat/a, b.png\"\r\n\r\nann,, ./cat/1.png \r\n ann,,dog/1.png\r\nben,,\"dog/\"\"2\"\".png\"",
        "record,user\r0,ann\r1,ben\r2,ann\r3,ben\r",
    ] {
        let users = decode(text).unwrap();
        assert_eq!(lists(&users), [&[0, 2][..], &[1, 3]], "{text:?}");
    }
    let nameless = Named(photos().0, false);
    let users = decode_users(b"user,record\nx,3\nx,2\ny,1\nx,0", Path::new("users.csv"), &nameless).unwrap();
    assert_eq!(lists(&users), [&[0, 2, 3][..], &[1]]);
}

#[test]
fn what_does_not_name_one_user_for_each_record_is_refused() {
    for (text, problem) in [
        ("", "it is empty"),
        ("file,owner\n", "no column `user` in its first line"),
        ("name,user\n", "no column `file` or `record` in its first line"),
        ("file,user,user\n", "several columns \"user\", of which one alone would count"),
        ("file,record,user\n", "columns `file` and `record`, of which one alone would count"),
        ("file,user\ncat/1.png\n", "line 2: 1 cells, but the first line has 2"),
        ("file,user\ncat/1.png, \n", "line 2: cat/1.png has no user"),
        ("file,user\n\"cat/1.png,ann\n", "line 2: a quotation mark is not closed"),
        ("file,user\n\"cat/1.png\"x,ann\n", "line 2: something follows a closed quotation mark"),
        (
            "file,user\nphotos/cat/1.png,ann\n",
            "line 2: no training record is named \"photos/cat/1.png\"; names begin in the folder of the training records, such as cat/1.png",
        ),
        (
            "file,user\ncat/1.png,ann\n\ncat/1.png,ben\n",
            "line 4: cat/1.png is ben's here and ann's in line 2, but a record has one user",
        ),
        ("file,user\ncat/1.png,ann\ncat/1.png,ann\n", "line 3: cat/1.png is named in line 2 already"),
        ("record,user\n4,ann\n", "line 2: \"4\" is no number from 0 to 3"),
        (
            "record,user\n0,ann\n2,ann\n",
            "2 of 4 training records have no user, the first is photos/cat/a, b.png",
        ),
    ] {
        let error = decode(text).unwrap_err();
        assert_eq!(error.to_string(), format!("users.csv: {problem}"));
        assert!(error.hint().is_some_and(|hint| hint.contains("file,user")));
    }
    let error = decode_users(b"file,user\ncat/1.png,\xff", Path::new("users.csv"), &photos()).unwrap_err();
    assert_eq!(error.to_string(), "users.csv: it is not text in UTF-8");
    let nameless = Named(photos().0, false);
    let error = decode_users(b"file,user\n", Path::new("users.csv"), &nameless).unwrap_err();
    assert!(error.to_string().contains("have no names"), "{error}");
}

fn many(users: usize, each: usize) -> Users {
    Users::of_owners((0..users * each).map(|record| format!("{:04}", record / each)))
}

#[test]
fn a_round_sees_a_uniform_choice_in_uniform_order() {
    let users = many(1, 4).with_most(Some(2));
    let mut counts = vec![0u64; 16];
    for seed in 0..12_000 {
        let shown = users.shown(0, &MasterKey::from_seed(seed).purpose(Purpose::UserRecords).step(3));
        assert!(shown.len() == 2 && shown[0] != shown[1]);
        counts[4 * shown[0] + shown[1]] += 1;
    }
    // Of the sixteen pairs, twelve have two records.
    let counts: Vec<u64> = counts
        .into_iter()
        .enumerate()
        .filter(|(pair, _)| pair / 4 != pair % 4)
        .map(|(_, count)| count)
        .collect();
    assert!(chi_square_accepts(&counts, &[1000.0; 12], ALPHA), "{counts:?}");
}

/// What a user shows does not depend on the others, only on its number among them, by which it has a stream of its own.
#[test]
fn a_round_sees_of_a_user_what_follows_from_key_and_user() {
    let key = MasterKey::from_seed(1).purpose(Purpose::UserRecords).step(5);
    let (few, more) = (many(3, 6), many(5, 6));
    assert_eq!(few.shown(1, &key), more.shown(1, &key));
    let all: BTreeSet<usize> = few.shown(2, &key).into_iter().collect();
    assert_eq!(all, (12..18).collect());
    assert_ne!(
        few.shown(1, &key),
        few.shown(1, &MasterKey::from_seed(1).purpose(Purpose::UserRecords).step(6))
    );
    assert!(few.shown(3, &key).is_empty());
}

#[test]
fn users_are_split_off_whole() {
    let names: Vec<&str> = (0..60).map(|record| ["a", "b", "c", "d"][record % 4]).collect();
    let whole: Arc<dyn Dataset> = Arc::new(Named(names, false));
    let users = Users::of_owners((0..60).map(|record| format!("user {}", record % 20))).with_most(Some(2));
    let (train, left, test) = split_users(&whole, &users, 0.4, 7).unwrap();
    assert_eq!(train.len() + test.len(), 60);
    assert_eq!((train.len(), test.len()), (3 * left.len(), 60 - 3 * left.len()));
    // Every user has all of its records on one side: three, twenty apart.
    for user in 0..left.len() {
        let mut values =
            left.records(user).iter().map(|&record| match train.read(record).unwrap().values() {
                Values::Bytes(bytes) => bytes[0],
                Values::Floats(_) => 0,
            });
        let first = values.next().unwrap();
        assert_eq!(values.collect::<Vec<_>>(), [first + 20, first + 40]);
        assert_eq!(left.shown(user, &MasterKey::from_seed(1).purpose(Purpose::UserRecords).step(0)).len(), 2);
    }
    // A user's coin is its own, whoever else there is.
    let fewer = Users::of_owners((0..57).map(|record| format!("user {}", record % 19)));
    let shorter: Arc<dyn Dataset> = Arc::new(Named(vec!["a"; 57], false));
    let (_, again, _) = split_users(&shorter, &fewer, 0.4, 7).unwrap();
    let known = |users: &Users| users.identities.iter().copied().collect::<BTreeSet<u64>>();
    assert!(known(&again).is_subset(&known(&left)));
    assert!(split_users(&whole, &many(1, 60), 0.4, 7).is_err());
}
