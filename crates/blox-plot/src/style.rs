//! Colours, dashes, markers, hatching, and sizes of text.

use crate::svg::{Num, Page};

/// Seven colours that stay apart for colour-blind readers, on white and on black.
///
/// The palette of Okabe and Ito (2008) without yellow. The last one is the colour of text.
pub const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444",
];
/// Dashes of lines, so that neighbouring series differ without colour.
const DASHES: [&str; 6] = [
    "",
    "7 2.5",
    "2 2",
    "9 2.5 2 2.5",
    "4.5 2",
    "9 2.5 2 2.5 2 2.5",
];

/// Width of a picture in units. A unit is 0.594 pt if the picture is 3.3 inch wide.
pub(crate) const WIDTH: f64 = 400.0;
/// Font size of ticks, names and notes: 6.5 pt if the picture is 3.3 inch wide.
pub(crate) const SMALL: f64 = 11.0;
/// Font size of labels of axes: 7.1 pt if the picture is 3.3 inch wide.
pub(crate) const MEDIUM: f64 = 12.0;
/// Font size of titles.
pub(crate) const LARGE: f64 = 14.0;

/// Returns the colour of the `i`th series. Colours repeat after seven series.
pub fn colour(i: usize) -> &'static str {
    COLOURS[i % COLOURS.len()]
}

/// Returns the dash of the `i`th series, as an attribute. Dashes repeat after six series.
pub(crate) fn dash(i: usize) -> String {
    match DASHES[i % DASHES.len()] {
        "" => String::new(),
        d => format!(" stroke-dasharray=\"{d}\""),
    }
}

/// Returns the class of the `i`th series. A dark page draws text-coloured lines light.
pub(crate) fn class(i: usize) -> &'static str {
    if i % COLOURS.len() == COLOURS.len() - 1 {
        " class=\"ink-line\""
    } else {
        ""
    }
}

/// Draws the marker of the `i`th series. Markers repeat after eight series.
pub(crate) fn marker(page: &mut Page, i: usize, x: f64, y: f64) {
    const R: f64 = 2.9;
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
    // Crosses are lines. The other markers are hollow in every second round of colours.
    let fill = if i % 8 == 5 || i % 8 == 6 || (i / COLOURS.len()) % 2 == 1 {
        "none"
    } else {
        colour(i)
    };
    page.put(format_args!(
        "<path{} d=\"{d}\" fill=\"{fill}\" stroke=\"{}\" stroke-width=\"1.3\"/>\n",
        class(i),
        colour(i)
    ));
}

/// Draws a rectangle of the `i`th category: solid, pale, or hatched in one of five ways.
pub(crate) fn tile(page: &mut Page, i: usize, x: f64, y: f64, width: f64, height: f64, hint: &str) {
    let (class, colour) = (class(i), colour(i));
    // Hatching hides the grid behind it.
    let look = match (i % 7, class) {
        (0, _) => format!("{class} fill=\"{colour}\""),
        (1, _) => format!("{class} fill=\"{colour}\" fill-opacity=\"0.3\""),
        (_, "") => " class=\"bg\" fill=\"#ffffff\"".to_owned(),
        _ => " class=\"bg ink-line\" fill=\"#ffffff\"".to_owned(),
    };
    let half = 0.5f64.min(width / 2.0);
    page.put(format_args!(
        "<rect{look} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" stroke=\"{colour}\">{hint}</rect>\n",
        Num(x + half),
        Num(y + 0.5),
        Num(width - 2.0 * half),
        Num(height - 1.0)
    ));
    let mut d = String::new();
    let mut stroke = |x1: f64, y1: f64, x2: f64, y2: f64| {
        d.push_str(&format!("M{} {}L{} {}", Num(x1), Num(y1), Num(x2), Num(y2)));
    };
    let (right, bottom) = (x + width, y + height);
    let steps = |gap: f64| (1..).map(move |k| f64::from(k) * gap);
    let kind = i % 7;
    if kind == 2 || kind == 4 {
        // Diagonals, cut at the sides.
        for far in steps(5.0).take_while(|far| *far < width + height) {
            let (from, to) = ((far - height).max(0.0), far.min(width));
            let at = |v: f64| {
                if kind == 2 {
                    bottom - (v - (far - height))
                } else {
                    y + (v - (far - height))
                }
            };
            stroke(x + from, at(from), x + to, at(to));
        }
    }
    if kind == 3 || kind == 6 {
        for far in steps(4.0).take_while(|far| *far < width) {
            stroke(x + far, y, x + far, bottom);
        }
    }
    if kind == 5 || kind == 6 {
        for far in steps(4.0).take_while(|far| *far < height) {
            stroke(x, y + far, right, y + far);
        }
    }
    if !d.is_empty() {
        page.put(format_args!(
            "<path{class} d=\"{d}\" fill=\"none\" stroke=\"{colour}\"/>\n"
        ));
    }
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

    #[test]
    fn twenty_series_differ_without_colour() {
        let mut looks: Vec<_> = (0..20).map(|i| (dash(i), i % 8)).collect();
        looks.sort();
        looks.dedup();
        assert_eq!(looks.len(), 20);
        // The first six differ by the dash alone.
        assert!((1..6).all(|i| (0..i).all(|k| dash(i) != dash(k))));
    }

    #[test]
    fn tiles_of_seven_categories_differ_without_colour() {
        let drawn = |i: usize| {
            let mut page = Page::new(50.0, 50.0, "tile");
            tile(&mut page, i, 0.0, 0.0, 30.0, 12.0, "");
            let plain = page.finish().replace(colour(i), "black");
            plain.replace(" class=\"ink-line\"", "")
        };
        assert!((1..7).all(|i| (0..i).all(|k| drawn(i) != drawn(k))));
        // Hatching stays inside.
        let svg = drawn(2);
        let d = svg
            .split(" d=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        for point in d.split(['M', 'L']).filter(|p| !p.is_empty()) {
            let (x, y) = point.split_once(' ').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!(
                (0.0..=30.0).contains(&x) && (0.0..=12.0).contains(&y),
                "{point}"
            );
        }
    }
}
