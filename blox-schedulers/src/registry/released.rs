//! The schedulers of Blox's released program.

use crate::compat;
use blox_core::registry::Registry;

pub(super) fn add(r: &mut Registry) {
    let s = &mut r.schedulers;
    s.add(
        "blox-fifo",
        "Fifo as Blox's released program has it, which knows no types of GPU",
        &[],
        |_, _| Ok(compat::blox::fifo()),
    );
    s.add(
        "blox-las",
        "Las as Blox's released program has it, which knows no types of GPU",
        &[],
        |_, _| Ok(compat::blox::las()),
    );
    s.add(
        "blox-srtf",
        "Srtf as Blox's released program has it, which knows no types of GPU",
        &[],
        |_, _| Ok(compat::blox::srtf()),
    );
    s.add(
        "blox-tiresias",
        "Tiresias as Blox's released program has it, which knows no types of GPU: its Las",
        &[],
        |_, _| Ok(compat::blox::tiresias()),
    );
    s.add(
        "blox-optimus",
        "Optimus as Blox's released program has it, which knows no types of GPU: its Srtf on jobs sped up by a \
         table of loads",
        &[],
        |_, _| Ok(compat::blox::optimus()),
    );
}
