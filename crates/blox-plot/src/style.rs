//! Colours, dashes, markers, hatching, and sizes of text.

use crate::svg::{Num, Page};

/// Colours of series, categories and jobs. The first three are of the palette of Okabe and Ito (2008).
///
/// The contrast of every colour is at least 3 on white and on a dark page (`#0d1117`). The first
/// colours of the list are far apart, also for colour-blind readers.
pub const COLOURS: [&str; 16] = [
    "#0072b2", "#d55e00", "#009e73", "#a374f5", "#95586c", "#7f8fae", "#e8476f", "#8c8430",
    "#c4189f", "#1c97d6", "#c2183a", "#5d9a2a", "#00909c", "#777777", "#8a3ff0", "#d655cf",
];
/// Dashes of lines, so that neighbouring series differ without colour.
const DASHES: [&str; 7] = [
    "",
    "7 2.5",
    "2 2",
    "9 2.5 2 2.5",
    "4.5 2",
    "9 2.5 2 2.5 2 2.5",
    "14 3",
];

/// Width of a picture in units. A unit is 0.594 pt if the picture is 3.3 inch wide.
pub(crate) const WIDTH: f64 = 400.0;
/// Font size of ticks, names and notes: 6.5 pt if the picture is 3.3 inch wide.
pub(crate) const SMALL: f64 = 11.0;
/// Font size of labels of axes: 7.1 pt if the picture is 3.3 inch wide.
pub(crate) const MEDIUM: f64 = 12.0;
/// Font size of titles.
pub(crate) const LARGE: f64 = 14.0;

/// Returns the colour of the `i`th series. Colours repeat after sixteen series.
pub fn colour(i: usize) -> &'static str {
    COLOURS[i % COLOURS.len()]
}

/// Returns the dash of the `i`th series, as an attribute. Dashes repeat after seven series.
pub(crate) fn dash(i: usize) -> String {
    match DASHES[i % DASHES.len()] {
        "" => String::new(),
        d => format!(" stroke-dasharray=\"{d}\""),
    }
}

/// Returns the width of the `i`th line. Lines with long dashes are wider and, drawn first, stay visible
/// around a line with short dashes in the same place.
pub(crate) fn width(i: usize) -> &'static str {
    match DASHES[i % DASHES.len()] {
        "" => "2.8",
        "7 2.5" | "14 3" => "2.2",
        _ => "1.4",
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
        "<path d=\"{d}\" fill=\"{fill}\" stroke=\"{}\" stroke-width=\"1.3\"/>\n",
        colour(i)
    ));
}

/// Draws a rectangle of the `i`th category: solid, pale, or hatched in one of five ways.
pub(crate) fn tile(page: &mut Page, i: usize, x: f64, y: f64, width: f64, height: f64, hint: &str) {
    let colour = colour(i);
    let opacity = match i % 7 {
        0 => "",
        1 => " fill-opacity=\"0.4\"",
        // Behind hatching.
        _ => " fill-opacity=\"0.1\"",
    };
    let half = 0.5f64.min(width / 2.0);
    page.put(format_args!(
        "<rect fill=\"{colour}\"{opacity} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" stroke=\"{colour}\">{hint}</rect>\n",
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
            "<path d=\"{d}\" fill=\"none\" stroke=\"{colour}\"/>\n"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::{GRID, INK, INK_ON_DARK, SOFT};

    /// Returns the contrast of two colours by the Web Content Accessibility Guidelines.
    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |colour: &str| -> f64 {
            let part = |at: usize| {
                let value = u8::from_str_radix(&colour[at..at + 2], 16).unwrap();
                match f64::from(value) / 255.0 {
                    v if v <= 0.040_45 => v / 12.92,
                    v => ((v + 0.055) / 1.055).powf(2.4),
                }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    }

    /// Returns a colour of this opacity on a ground.
    fn on(ground: &str, colour: &str, opacity: f64) -> String {
        let part =
            |text: &str, at: usize| f64::from(u8::from_str_radix(&text[at..at + 2], 16).unwrap());
        let mixed =
            [1, 3, 5].map(|at| part(ground, at) * (1.0 - opacity) + part(colour, at) * opacity);
        let [r, g, b] = mixed.map(|v| v.round() as u8);
        format!("#{r:02x}{g:02x}{b:02x}")
    }

    const WHITE: &str = "#ffffff";
    const DARK: &str = "#0d1117";

    #[test]
    fn contrast_of_known_pairs_of_colours() {
        assert_eq!(contrast(WHITE, "#000000"), 21.0);
        assert_eq!((contrast("#767676", WHITE) * 100.0).round(), 454.0);
        // Black, white, and the palette of Okabe and Ito do not suit both grounds.
        for unsuited in ["#000000", WHITE, "#e69f00", "#56b4e9", "#444444"] {
            let least = contrast(unsuited, WHITE).min(contrast(unsuited, DARK));
            assert!(least < 3.0, "{unsuited} {least}");
        }
    }

    #[test]
    fn every_colour_is_legible_on_white_and_on_dark() {
        for colour in COLOURS.into_iter().chain([INK, INK_ON_DARK, SOFT]) {
            for ground in [WHITE, DARK] {
                let seen = contrast(colour, ground);
                assert!(seen >= 3.0, "{colour} on {ground}: {seen:.2}");
            }
        }
        // Text on the ground that its reader prefers.
        assert!(contrast(INK, WHITE) >= 4.5 && contrast(INK_ON_DARK, DARK) >= 4.5);
        assert!(contrast(SOFT, WHITE) >= 4.3 && contrast(SOFT, DARK) >= 4.3);
        for ground in [WHITE, DARK] {
            let grid = on(ground, GRID.0, GRID.1.parse().unwrap());
            let seen = contrast(&grid, ground);
            assert!((1.25..2.0).contains(&seen), "grid on {ground}: {seen:.2}");
        }
    }

    #[test]
    fn colours_of_the_palette_are_apart() {
        let part = |colour: &str, at: usize| {
            f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap())
        };
        for (i, a) in COLOURS.iter().enumerate() {
            for b in &COLOURS[..i] {
                let apart = [1, 3, 5].map(|at| (part(a, at) - part(b, at)).abs());
                assert!(apart.iter().sum::<f64>() >= 50.0, "{a} {b}");
            }
        }
    }

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
        // The first seven differ by the dash alone.
        assert!((1..7).all(|i| (0..i).all(|k| dash(i) != dash(k))));
    }

    #[test]
    fn tiles_of_seven_categories_differ_without_colour() {
        let drawn = |i: usize| {
            let mut page = Page::new(50.0, 50.0, "tile");
            tile(&mut page, i, 0.0, 0.0, 30.0, 12.0, "");
            page.finish().replace(colour(i), "black")
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
