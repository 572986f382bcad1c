use blox::prelude::*;

// ANCHOR: rule
/// Places each job where the fewest other jobs use its links.
struct QuietLinks;

impl NodeSelector for QuietLinks {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let view = draft.view();
        let nodes = view.nodes().filter(|node| suits(node, job, shape, view));
        // One candidate for each node: its free GPUs, then those of the next nodes.
        let from = |first: usize| {
            let order = nodes.clone().skip(first).chain(nodes.clone().take(first));
            let free = order.flat_map(|node| draft.free_gpus_on(node.id()));
            shape.on(free.take(shape.gpus.get() as usize).collect())
        };
        let load = |on: &Assignment| -> usize {
            let links = view.cluster().links_of(&on.gpus);
            links.iter().map(|link| draft.on_link(*link).count()).sum()
        };
        let all = (0..nodes.clone().count()).map(from);
        let right = |on: &Assignment| on.count() == shape.gpus && draft.fits(job, on);
        all.filter(right).min_by_key(load)
    }
}
// ANCHOR_END: rule

// ANCHOR: compose
pub fn scheduler() -> Composition {
    Composition::new("quiet-links")
        .scheduling(Fifo::default())
        .placement(InOrder::new(QuietLinks))
}
// ANCHOR_END: compose
