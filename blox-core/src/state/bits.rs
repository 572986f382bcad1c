//! A set as the list of its members: the bit set's own form is bytes, which
//! JSON cannot give back.

use fixedbitset::FixedBitSet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub fn serialize<S: Serializer>(set: &FixedBitSet, s: S) -> Result<S::Ok, S::Error> {
    let members: Vec<u32> = set.ones().map(|i| i as u32).collect();
    (set.len() as u32, members).serialize(s)
}

pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<FixedBitSet, D::Error> {
    let (room, members) = <(u32, Vec<u32>)>::deserialize(d)?;
    let mut set = FixedBitSet::with_capacity(room as usize);
    for member in members {
        if member >= room {
            return Err(serde::de::Error::custom("a member beyond the set"));
        }
        set.insert(member as usize);
    }
    Ok(set)
}
