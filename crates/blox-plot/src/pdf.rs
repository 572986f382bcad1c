//! Pictures as PDF: a page with the shapes of the SVG, and text as outlines.

use crate::parsed::{self, ConversionError};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::{Content, Filter, Name, Pdf, Rect, Ref};
use resvg::tiny_skia::{PathSegment, Point, Transform};
use resvg::usvg::{Color, Fill, Group, LineJoin, Node, Paint, Path, Stroke};
use std::collections::BTreeSet;
use std::io::Write;

/// Converts an SVG of this crate to PDF. Shapes and text are vectors; text is outlines of the
/// font DejaVu Sans. Pictures have no other fill rule than non-zero, and no other line ends than
/// straight ones.
///
/// The page has the size of the picture: a chart is 3.3 inch wide, one column of a paper. Text and axes
/// are darker than in the SVG, for white paper. The same SVG gives the same bytes.
///
/// # Errors
/// The text is not SVG, or the SVG has an element that pictures of this crate do not have.
pub fn pdf(svg: &str) -> Result<Vec<u8>, ConversionError> {
    let tree = parsed::tree(svg, Some(ON_PAPER))?;
    let (width, height) = (tree.size().width() * POINTS, tree.size().height() * POINTS);
    let mut drawing = Drawing {
        content: Content::new(),
        opacities: BTreeSet::new(),
    };
    // The vertical axis of a PDF runs upwards.
    let page = Transform::from_row(POINTS, 0.0, 0.0, -POINTS, 0.0, height);
    drawing.group(tree.root(), page)?;
    drawing.page(width, height)
}

/// Colours of text, notes and axes on white paper.
const ON_PAPER: &str = ".ink{fill:#1a1a1a}.ink-line{stroke:#1a1a1a}.soft{fill:#5a5a5a}";

/// Points for each unit: 400 units are 3.3 inch.
const POINTS: f32 = 0.594;

/// The operators of a page.
struct Drawing {
    content: Content,
    /// The opacities of fills and strokes in percent.
    opacities: BTreeSet<u8>,
}

impl Drawing {
    fn group(&mut self, group: &Group, outer: Transform) -> Result<(), ConversionError> {
        if group.should_isolate() {
            return Err(ConversionError::Unsupported("a group with an effect"));
        }
        let at = outer.pre_concat(group.transform());
        for node in group.children() {
            match node {
                Node::Group(group) => self.group(group, at)?,
                Node::Path(path) => self.path(path, at)?,
                Node::Text(text) => self.group(text.flattened(), at)?,
                Node::Image(_) => return Err(ConversionError::Unsupported("an image")),
            }
        }
        Ok(())
    }

    fn path(&mut self, path: &Path, at: Transform) -> Result<(), ConversionError> {
        if !path.is_visible() {
            return Ok(());
        }
        if let Some(fill) = path.fill() {
            self.fill(fill, path, at)?;
        }
        if let Some(stroke) = path.stroke() {
            self.stroke(stroke, path, at)?;
        }
        Ok(())
    }

    fn fill(&mut self, fill: &Fill, path: &Path, at: Transform) -> Result<(), ConversionError> {
        let [r, g, b] = rgb(fill.paint())?;
        self.opacity(fill.opacity().get());
        self.content.set_fill_rgb(r, g, b);
        self.outline(path, at);
        self.content.fill_nonzero();
        Ok(())
    }

    fn stroke(
        &mut self,
        stroke: &Stroke,
        path: &Path,
        at: Transform,
    ) -> Result<(), ConversionError> {
        let [r, g, b] = rgb(stroke.paint())?;
        self.opacity(stroke.opacity().get());
        // The same in all directions: pictures are moved and turned, never stretched.
        let scale = (at.sx * at.sy - at.kx * at.ky).abs().sqrt();
        let dashes = stroke.dasharray().unwrap_or(&[]);
        self.content
            .set_stroke_rgb(r, g, b)
            .set_line_width(rounded(stroke.width().get() * scale))
            .set_line_cap(LineCapStyle::ButtCap)
            .set_line_join(match stroke.linejoin() {
                LineJoin::Round => LineJoinStyle::RoundJoin,
                _ => LineJoinStyle::MiterJoin,
            })
            .set_miter_limit(stroke.miterlimit().get())
            .set_dash_pattern(
                dashes.iter().map(|d| rounded(d * scale)),
                rounded(stroke.dashoffset() * scale),
            );
        self.outline(path, at);
        self.content.stroke();
        Ok(())
    }

    /// Appends the segments of a path.
    fn outline(&mut self, path: &Path, at: Transform) {
        let place = |mut p: Point| {
            at.map_point(&mut p);
            p
        };
        let xy = |p: Point| (rounded(p.x), rounded(p.y));
        // The current point in the coordinates of the page.
        let mut last = Point::zero();
        for segment in path.data().segments() {
            match segment {
                PathSegment::MoveTo(p) => {
                    last = place(p);
                    let (x, y) = xy(last);
                    self.content.move_to(x, y);
                }
                PathSegment::LineTo(p) => {
                    last = place(p);
                    let (x, y) = xy(last);
                    self.content.line_to(x, y);
                }
                PathSegment::QuadTo(c, p) => {
                    // PDF has cubic curves only.
                    let (c, p) = (place(c), place(p));
                    let towards = |end: Point| {
                        Point::from_xy(end.x + (c.x - end.x) / 1.5, end.y + (c.y - end.y) / 1.5)
                    };
                    self.curve(towards(last), towards(p), p);
                    last = p;
                }
                PathSegment::CubicTo(a, b, p) => {
                    last = place(p);
                    self.curve(place(a), place(b), last);
                }
                PathSegment::Close => {
                    self.content.close_path();
                }
            }
        }
    }

    fn curve(&mut self, a: Point, b: Point, end: Point) {
        let [a, b, end] = [a, b, end].map(|p| (rounded(p.x), rounded(p.y)));
        self.content.cubic_to(a.0, a.1, b.0, b.1, end.0, end.1);
    }

    fn opacity(&mut self, opacity: f32) {
        let percent = (opacity * 100.0).round() as u8;
        if percent < 100 || !self.opacities.is_empty() {
            self.opacities.insert(percent);
            self.content
                .set_parameters(Name(opacity_name(percent).as_bytes()));
        }
    }

    /// Returns the file with one page.
    fn page(self, width: f32, height: f32) -> Result<Vec<u8>, ConversionError> {
        let [catalog, pages, page, content] = [1, 2, 3, 4].map(Ref::new);
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&self.content.finish())?;
        let packed = packed.finish()?;
        let mut pdf = Pdf::new();
        pdf.catalog(catalog).pages(pages);
        pdf.pages(pages).kids([page]).count(1);
        let mut sheet = pdf.page(page);
        sheet
            .media_box(Rect::new(0.0, 0.0, rounded(width), rounded(height)))
            .parent(pages)
            .contents(content);
        let mut resources = sheet.resources();
        let mut states = resources.ext_g_states();
        for percent in self.opacities {
            let part = f32::from(percent) / 100.0;
            states
                .insert(Name(opacity_name(percent).as_bytes()))
                .start::<pdf_writer::writers::ExtGraphicsState<'_>>()
                .non_stroking_alpha(part)
                .stroking_alpha(part);
        }
        drop(states);
        drop(resources);
        drop(sheet);
        pdf.stream(content, &packed).filter(Filter::FlateDecode);
        Ok(pdf.finish())
    }
}

/// Returns a colour as parts of one.
fn rgb(paint: &Paint) -> Result<[f32; 3], ConversionError> {
    match paint {
        Paint::Color(Color { red, green, blue }) => {
            Ok([red, green, blue].map(|part| rounded(f32::from(*part) / 255.0)))
        }
        _ => Err(ConversionError::Unsupported("a gradient or pattern")),
    }
}

/// Rounds to thousandths: short numbers, far below what a printer resolves.
fn rounded(v: f32) -> f32 {
    (v * 1000.0).round() / 1000.0
}

fn opacity_name(percent: u8) -> String {
    format!("opacity{percent}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Bar, BarChart, Chart, Gantt, Outline, Series};
    use flate2::read::ZlibDecoder;
    use std::io::Read;

    /// Returns the operators of the page, uncompressed.
    fn operators(bytes: &[u8]) -> String {
        let find = |what: &[u8]| bytes.windows(what.len()).position(|w| w == what).unwrap();
        let (start, end) = (find(b"stream\n") + 7, find(b"\nendstream"));
        let mut text = String::new();
        let mut packed = ZlibDecoder::new(&bytes[start..end]);
        packed.read_to_string(&mut text).unwrap();
        text
    }

    fn distribution() -> String {
        Chart::distribution("JCT", Axis::seconds("JCT").log())
            .with(Series::distribution("fifo", [60.0, 300.0, 9e5]))
            .with(Series::distribution("las", [60.0, 200.0, 8e5]))
            .svg()
    }

    #[test]
    fn pdf_of_a_chart_is_one_column_wide() {
        let bytes = pdf(&distribution()).unwrap();
        assert!(bytes.starts_with(b"%PDF-") && bytes.ends_with(b"%%EOF"));
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("/MediaBox [0 0 237.6 "), "{text}");
        // The same picture gives the same bytes, without a date.
        assert_eq!(bytes, pdf(&distribution()).unwrap());
        assert!(!text.contains("CreationDate"));
    }

    #[test]
    fn pdf_has_colours_dashes_and_outlines_of_text() {
        let text = operators(&pdf(&distribution()).unwrap());
        // The second series: its colour and dash.
        assert!(text.contains("0.835 0.369 0 RG"), "{text}");
        assert!(text.contains("[4.158 1.485] 0 d"), "{text}");
        assert!(!text.contains("1 1 1 rg"), "a page has no background");
        // Text and axes are dark.
        assert!(text.contains("0.102 0.102 0.102 rg") && text.contains("0.102 0.102 0.102 RG"));
        // Glyphs are curves; no font is needed.
        assert!(text.contains(" c\n") && !text.contains("Tf"));
        let points = text
            .lines()
            .filter(|l| l.ends_with(" m") || l.ends_with(" l"));
        for point in points {
            let (x, rest) = point.split_once(' ').unwrap();
            let y = rest.split_once(' ').unwrap().0;
            let (x, y): (f32, f32) = (x.parse().unwrap(), y.parse().unwrap());
            assert!(
                (0.0..=237.6).contains(&x) && (0.0..=250.0).contains(&y),
                "{point}"
            );
        }
    }

    #[test]
    fn pdf_draws_every_kind_of_picture() {
        let steps = |i: usize| Series::steps(format!("s{i}"), [(0.0, i as f64), (9.0, 2.0)]);
        let panels = Chart::new("Queue", Axis::seconds("time"), Axis::new("jobs"))
            .with_all((0..6).map(steps))
            .in_panels(true);
        let bars = (0..8).map(|i| (format!("c{i}"), f64::from(i)));
        let bars = BarChart::new("JCT", Axis::seconds("JCT")).with("fifo", bars);
        let job = |i: u32| Bar {
            job: i,
            job_id: i.to_string().into(),
            gpus: vec![(i % 4, i % 4)],
            start_s: f64::from(i),
            end_s: f64::from(i) + 1.0,
        };
        let few = Gantt::new("las", [4]).with_all((0..50).map(job));
        let many = Gantt::new("las", [4]).with_all((0..20_000).map(job));
        let tree = Outline::new("tree", [(0, "a".to_owned()), (1, "b".to_owned())]);
        for svg in [panels.svg(), bars.svg(), few.svg(), many.svg(), tree.svg()] {
            let bytes = pdf(&svg).unwrap();
            assert!(!operators(&bytes).contains("NaN"));
        }
        let opaque = String::from_utf8_lossy(&pdf(&many.svg()).unwrap()).into_owned();
        assert!(
            opaque.contains("/opacity50") && opaque.contains("/ca 0.5"),
            "{opaque}"
        );
    }

    #[test]
    fn pdf_of_another_svg_is_an_error() {
        assert!(matches!(pdf("no picture"), Err(ConversionError::Svg(_))));
        let faded = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'>\
                     <g opacity='0.5'><rect width='5' height='5'/></g></svg>";
        let error = pdf(faded).unwrap_err().to_string();
        assert!(error.contains("a group with an effect"), "{error}");
    }
}
