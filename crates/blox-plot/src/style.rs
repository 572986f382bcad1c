//! How series look: colour, dash and marker.

use crate::svg::{Num, Page};

/// Seven colours that the colour-blind can tell apart, on white and on black:
/// those of Okabe and Ito (2008) without yellow; the last is the colour of text.
pub const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444",
];
const DASHES: [&str; 3] = ["", "7 3", "2 3"];

/// The colour of the `i`th series. Seven series later it comes again, with
/// another dash.
pub fn colour(i: usize) -> &'static str {
    COLOURS[i % COLOURS.len()]
}

/// The dash of the `i`th series, as an attribute.
pub(crate) fn dash(i: usize) -> String {
    match DASHES[(i / COLOURS.len()) % DASHES.len()] {
        "" => String::new(),
        d => format!(" stroke-dasharray=\"{d}\""),
    }
}

/// The class of the `i`th series: a dark page makes text-coloured lines light.
pub(crate) fn class(i: usize) -> &'static str {
    if i % COLOURS.len() == COLOURS.len() - 1 {
        " class=\"ink-line\""
    } else {
        ""
    }
}

/// Draws the marker of the `i`th series: eight shapes in turn.
pub(crate) fn marker(page: &mut Page, i: usize, x: f64, y: f64) {
    const R: f64 = 3.5;
    let at = |dx: f64, dy: f64| format!("{} {}", Num(x + dx * R), Num(y + dy * R));
    let closed = |corners: &[(f64, f64)]| {
        let list: Vec<String> = corners.iter().map(|(dx, dy)| at(*dx, *dy)).collect();
        format!("M{}Z", list.join("L"))
    };
    let cross = |a: (f64, f64)| {
        format!(
            "M{}L{}M{}L{}",
            at(-a.0, -a.1),
            at(a.0, a.1),
            at(a.1, -a.0),
            at(-a.1, a.0)
        )
    };
    let d = match i % 8 {
        0 => {
            let (w, r) = (Num(2.0 * R), Num(R));
            format!(
                "M{}a{r} {r} 0 1 0 {w} 0a{r} {r} 0 1 0 -{w} 0Z",
                at(-1.0, 0.0)
            )
        }
        1 => closed(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => closed(&[(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)]),
        3 => closed(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
        4 => closed(&[(0.0, 1.2), (1.1, -0.9), (-1.1, -0.9)]),
        5 => cross((1.2, 0.0)),
        6 => cross((0.9, 0.9)),
        _ => closed(&[(-1.2, 0.0), (0.9, -1.1), (0.9, 1.1)]),
    };
    // Open shapes are lines; closed ones are filled up to the third dash, then hollow.
    let fill = if i % 8 == 5 || i % 8 == 6 || (i / COLOURS.len()) % 2 == 1 {
        "none"
    } else {
        colour(i)
    };
    page.put(format_args!(
        "<path{} d=\"{d}\" fill=\"{fill}\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
        class(i),
        colour(i)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_series_differ_by_colour_and_dash() {
        let mut looks: Vec<_> = (0..20).map(|i| (colour(i), dash(i))).collect();
        looks.sort();
        looks.dedup();
        assert_eq!(looks.len(), 20);
    }
}
