//! A chart with a panel for each series.

use crate::axis::Room;
use crate::chart::{Chart, RIGHT};
use crate::frame::{Frame, Heading, Label, width_of_ticks};
use crate::style::{SMALL, WIDTH};
use crate::svg::{Anchor, Num, Page, fitted_name};

const HEIGHT: f64 = 76.0;
/// Distances between panels, across and down.
const GAP: (f64, f64) = (22.0, 24.0);

/// Draws the panels, in two columns up to eight series, otherwise in three.
pub(crate) fn svg(chart: &Chart) -> String {
    let count = chart.series.len().max(1);
    let columns = match count {
        1..=8 => count.min(2),
        _ => 3,
    };
    let rows = count.div_ceil(columns);
    let y = chart.y.fit(chart.ys(), &Room::upwards(HEIGHT, SMALL));
    let down = rows as f64 * (HEIGHT + GAP.1) - GAP.1;
    let y_label = Label::of(&y.label, down.max(150.0));
    let left = y_label.beside() + width_of_ticks(&y);
    let gaps = GAP.0 * (columns - 1) as f64;
    let width = (WIDTH - left - RIGHT - gaps) / columns as f64;
    let x = chart.x.fit(chart.xs(), &Room::across(width, SMALL));
    let x_label = Label::of(&x.label, WIDTH - left - RIGHT);
    let heading = Heading::of(&chart.title, &chart.subtitle, WIDTH);
    let top = heading.height() + SMALL;
    let bottom = top + down;
    let mut page = Page::new(WIDTH, bottom + x_label.below() + 4.0, &chart.title);
    heading.draw(&mut page);
    // Several pictures may share a page and its identifiers.
    let letters = chart
        .title
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let id: String = "all-".chars().chain(letters).collect();
    for (i, series) in chart.series.iter().enumerate() {
        let (row, column) = (i / columns, i % columns);
        let frame = Frame {
            left: left + column as f64 * (width + GAP.0),
            top: top + row as f64 * (HEIGHT + GAP.1),
            width,
            height: HEIGHT,
            x: x.clone(),
            y: y.clone(),
        };
        // The lowest panel of each column has the names of the ticks.
        let lowest = i + columns >= count;
        frame.draw(&mut page, lowest, column == 0);
        if i == 0 {
            // All series in grey, drawn once and repeated in the other panels.
            page.put(format_args!("<g id=\"{id}\">\n"));
            for behind in &chart.series {
                behind.draw_behind(&mut page, &frame);
            }
            page.put(format_args!("</g>\n"));
        } else {
            let (x, y) = (Num(frame.left - left), Num(frame.top - top));
            page.put(format_args!("<use href=\"#{id}\" x=\"{x}\" y=\"{y}\"/>\n"));
        }
        series.draw_plain(&mut page, &frame, i);
        let name = fitted_name(&series.name, SMALL, width + GAP.0 - 6.0);
        let (x, y) = (frame.left + 1.0, frame.top - 5.0);
        page.text(x, y, Anchor::Start, SMALL, &name);
    }
    let across = (WIDTH - RIGHT - left) / 2.0;
    x_label.draw_below(&mut page, left + across, bottom);
    y_label.draw_beside(&mut page, top + down / 2.0);
    page.finish()
}

#[cfg(test)]
mod tests {
    use crate::{Axis, Chart, Series};

    #[test]
    fn every_series_has_its_panel() {
        let steps =
            |i: usize| Series::steps(format!("s{i}"), [(0.0, i as f64), (10.0, 3.0), (20.0, 0.0)]);
        let chart = Chart::new("Queue", Axis::seconds("time"), Axis::new("jobs").from(0.0))
            .with_all((0..10).map(steps))
            .in_panels(true);
        let svg = chart.svg();
        // Ten coloured lines; ten grey ones, repeated in nine panels.
        assert_eq!(svg.matches("stroke-linejoin").count(), 10);
        assert_eq!(svg.matches("stroke-width=\"0.7\"/>").count(), 10);
        assert_eq!(svg.matches("<use href=\"#all-Queue\"").count(), 9);
        assert!(svg.contains(">s9</text>"));
    }

    #[test]
    fn panels_have_the_width_of_other_pictures() {
        let series = |i: usize| Series::steps(format!("s{i}"), [(0.0, 1.0), (9.0, 2.0)]);
        for count in [0, 1, 2, 5, 9, 20] {
            let chart = Chart::new("Queue", Axis::seconds("time"), Axis::new("jobs"))
                .with_all((0..count).map(series))
                .in_panels(true);
            assert!(chart.svg().contains("viewBox=\"0 0 400 "));
        }
    }
}
