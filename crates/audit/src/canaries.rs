//! The records that an attacker would choose, and the model that shows them best.

use std::sync::Arc;

use dapple_data::{DataError, Dataset, Image, SubmodelLaw, Subset, Target, Users, Values};
use dapple_geometry::{Mask, Placement, Region, Size};
use dapple_graph::op::{AdaptiveAvgPool, Add, Concat, Dropout, ParameterValue, Reshape, Slice};
use dapple_graph::{
    ConvSpec, Graph, GraphBuilder, GraphError, Init, LinearNames, Loss, NodeId, ParameterId, Parameters,
    Window,
};
use dapple_plan::spec::MaskedContent;
use dapple_plan::{Plan, Relation};
use serde::Serialize;

use crate::error::AuditError;

/// The only weights that train, but for those of submodels and of marks. Each canary has its own.
const WEIGHTS: &str = "canaries.weight";
/// The weights that train on the public parts of canaries.
const MARKS: &str = "marks.weight";
/// The score of the class that stands for no canary. It is so much larger than all others that the model never expects those.
const BACKGROUND: f32 = 40.0;
/// What one red pixel is worth to the model: so much that the gradient is far longer than a clip norm even if a view shows only a trace
/// of red.
const RED: f32 = 1e6;
/// How long the gradient of a canary's public part is at least, in standard deviations of the noise, if it is not clipped. It is so long that
/// the attacker sees at once which steps drew it, however small a share of it a view shows, and weights still hardly move.
const MARK: f64 = 1e6;
/// The most pixels of an image, because several images are in memory at once.
const MOST_PIXELS: u64 = 1 << 26;

/// How many images a pool has: more than one, so that they are drawn.
const POOL: usize = 4;

/// The value of stripes, and what is added to them: views of the stripes cancel but for one part in sixteen thousand, whose sign the coin
/// decides.
const STRIPE: f32 = 1_048_576.0;
const LEFT: f32 = 64.0;

/// What canaries show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One colour, so that a canary's gradient is one number. This shows an attacker the most if the arithmetic is exact.
    #[default]
    Plain,
    /// Stripes of huge numbers, in a layer of many weights whose gradients are never written down. Views that are a column apart cancel,
    /// so a norm that is computed carelessly comes out far too small, and what the coin decides is hardly clipped.
    Cancelling,
}

/// Black records, with one canary among them for each coin. The coin decides whether the canary shows one content or its opposite, or,
/// where records are added and removed, whether it is there or absent.
#[derive(Debug, Clone)]
pub(crate) struct Canaries {
    pattern: Pattern,
    size: Size,
    records: usize,
    /// The coin of each canary; heads shows red.
    coins: Vec<bool>,
    relation: Relation,
    /// The pixels that a coin decides, or `None` for the whole image. They are the same for all canaries, so that one probability holds
    /// for all.
    region: Option<Mask>,
    /// Whether there are weights that every record updates.
    shared: bool,
    split: CanarySplit,
    /// What is private, where records have private and public parts.
    parted: Option<PartedCanary>,
    /// Every record is a user of its own, where users are what is protected.
    users: Option<Users>,
}

/// What the private and the public part of a canary show. Its columns belong to one and the other in turn, so that every crop shows both.
#[derive(Debug, Clone, Copy)]
struct PartedCanary {
    /// Whether tails shows the opposite of heads, rather than having no private part.
    opposite: bool,
    /// What one green pixel of the public part is worth to the model.
    green: f32,
}

impl PartedCanary {
    fn of(plan: &Plan) -> Option<Self> {
        let opposite = plan.parts()[0].masked()?.content == MaskedContent::Substitute;
        let noise = plan.parts().iter().map(Plan::gradient_noise).fold(1.0, f64::max);
        Some(Self { opposite, green: (MARK * noise * plan.clip_norm()) as f32 })
    }

    /// Whether a pixel of an image of this width belongs to the private part.
    fn is_private(i: usize, width: u32) -> bool {
        (i % width as usize).is_multiple_of(2)
    }
}

/// How the model of an audit is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CanarySplit {
    /// Not at all.
    Whole,
    /// So many blocks are dealt out to submodels, each with weights for every canary.
    Blocks(usize),
    /// Dropout keeps or drops [`UNITS`] nodes, behind each of which lie weights for every canary.
    Units,
}

/// The nodes of an audited model that dropout may drop: so many that a record hardly ever drops all of them and adds nothing, and so few that
/// an attacker can weigh every mask.
pub(crate) const UNITS: usize = 6;

impl CanarySplit {
    /// The split of a plan's model. Blocks are as many as the largest number of submodels that they are dealt out to.
    pub(crate) fn of(part: &Plan) -> Self {
        let most = SubmodelLaw::of(part).and_then(|law| law.counts().max());
        match most {
            Some(most) => Self::Blocks(usize::try_from(most).unwrap_or(usize::MAX)),
            None if part.split().is_some() => Self::Units,
            None => Self::Whole,
        }
    }
}

/// Weights of the model that are the canaries' own: a parameter in which one canary comes after the other, with equally many weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CanaryWeights {
    pub(crate) id: ParameterId,
    /// Which one of a canary's weights is meant; all of them if there is none.
    pub(crate) unit: Option<usize>,
}

impl Canaries {
    pub(crate) fn new(
        plan: &Plan,
        pattern: Pattern,
        records: usize,
        coins: Vec<bool>,
    ) -> Result<Self, AuditError> {
        let parts = plan.parts();
        let size = match parts.iter().find_map(|part| part.spatial().image()) {
            Some(size) => size,
            None if parts.iter().any(|part| part.spatial().pipeline().is_some()) => {
                return Err(AuditError::Image { problem: "the size of the images is not given".to_owned() });
            }
            // A pixel for each part that a record has.
            None => Size::new(1 + u32::from(plan.relation() == Relation::Masked), 1).map_err(impossible)?,
        };
        if size.pixels() > MOST_PIXELS {
            return Err(AuditError::Image { problem: format!("images of {size} are too large to be made") });
        }
        if pattern == Pattern::Cancelling && parts.len() > 1 {
            let problem =
                "cancelling canaries have weights for views of one size, and phases may have several";
            return Err(AuditError::Image { problem: problem.to_owned() });
        }
        let split = CanarySplit::of(&parts[0]);
        if pattern == Pattern::Cancelling && split != CanarySplit::Whole {
            let problem = "cancelling canaries have one layer, which cannot be split into submodels";
            return Err(AuditError::Split { problem: problem.to_owned() });
        }
        let parted = PartedCanary::of(plan);
        if parted.is_some() && pattern == Pattern::Cancelling {
            let problem = "cancelling canaries have no public part";
            return Err(AuditError::Masked { problem: problem.to_owned() });
        }
        let region = match plan.relation() {
            Relation::Patch => region(&parts[0], size).map_err(impossible)?,
            _ => None,
        };
        let shared = parts[0].split().is_none_or(|split| split.nonsplit_norm() > 0.0);
        let relation = plan.relation();
        let users = (relation == Relation::User).then(|| Users::of_owners(0..records));
        Ok(Self { pattern, size, records, coins, relation, region, shared, split, parted, users })
    }

    /// A model whose gradient at a canary touches only the canary's own weights, downhill for heads and uphill for tails, and whose
    /// gradient at a black record is zero. Weights begin at zero.
    pub(crate) fn model(&self, shape: &[usize]) -> Result<(Graph, Parameters), GraphError> {
        let coins = self.coins.len();
        let mut b = GraphBuilder::new(shape);
        let pixels: usize = shape[1..].iter().product();
        let scores = match self.pattern {
            Pattern::Plain => {
                let colour = b.conv("colour", b.input(), ConvSpec::new(1, Window::square(1)))?;
                let mean = b.add("mean", AdaptiveAvgPool(vec![1, 1]), &[colour])?;
                match self.split {
                    CanarySplit::Whole if self.parted.is_some() => self.marked_scores(&mut b, mean)?,
                    CanarySplit::Whole => self.shared_scores(&mut b, "scores", mean)?,
                    CanarySplit::Blocks(blocks) => self.split_scores(&mut b, blocks, mean)?,
                    CanarySplit::Units => self.dropped_scores(&mut b, mean)?,
                }
            }
            Pattern::Cancelling => {
                let row = b.add("pixels", Reshape(vec![pixels]), &[b.input()])?;
                b.linear("canaries", row, coins, Init::Constant(0.0), Init::Constant(0.0))?
            }
        };
        let constant = b.parameter("background", &[1], Init::Constant(BACKGROUND), true)?;
        let constant = b.add("background score", ParameterValue(constant), &[])?;
        let output = b.add("output", Concat { axis: 0 }, &[scores, constant])?;
        let mut graph = b.finish(output, Loss::CrossEntropy { label_smoothing: 0.0 })?;
        graph.set_trainable(|name| self.weight_names().iter().any(|weights| weights == name));
        let mut parameters = Parameters::zeros(&graph);
        let red = RED * pixels as f32;
        let green = self.parted.map_or(0.0, |parted| parted.green);
        for (name, values) in [
            ("colour.weight", &[red, 0.0, -red][..]),
            ("mark.weight", &[0.0, green, 0.0]),
            ("background", &[BACKGROUND]),
            ("nodes.weight", &[1.0; UNITS]),
        ] {
            if let Some(id) = graph.find_parameter(name) {
                parameters.get_mut(id).copy_from_slice(values);
            }
        }
        Ok((graph, parameters))
    }

    /// Which content a record shows: that of heads, its opposite (tails), or nothing.
    fn shown(&self, record: usize) -> Option<bool> {
        let opposite = match self.relation {
            Relation::Patch | Relation::Replace => true,
            Relation::Masked => self.parted.is_some_and(|parted| parted.opposite),
            Relation::AddRemove | Relation::User => false,
        };
        self.coins.get(record).copied().filter(|&heads| heads || opposite)
    }

    /// The public images that stand beside records where the plan shows any. A certificate holds for every pool, so the attacker chooses
    /// one that hides nothing: black images, whose gradient is zero. What is left of a canary beside them, and in mixtures with them, is
    /// still far longer than a clip norm.
    pub(crate) fn pool(&self) -> Result<Subset, DataError> {
        let black = self.coins.len();
        Subset::new(Arc::new(Self { records: black + POOL, ..self.clone() }), (black..black + POOL).collect())
    }

    /// The scores of all canaries from the mean colour, by weights that every record updates.
    fn shared_scores(&self, b: &mut GraphBuilder, name: &str, mean: NodeId) -> Result<NodeId, GraphError> {
        let coins = self.coins.len();
        let scores = b.conv("canaries", mean, ConvSpec::new(coins, Window::square(1)))?;
        b.add(name, Reshape(vec![coins]), &[scores])
    }

    /// The scores of all canaries from the mean colour of their private parts, beside scores from the green of their public ones by weights
    /// of their own. What a part does not show has the colour black, so each weight moves by one part alone.
    fn marked_scores(&self, b: &mut GraphBuilder, mean: NodeId) -> Result<NodeId, GraphError> {
        let coins = self.coins.len();
        let private = self.shared_scores(b, "private scores", mean)?;
        let mark = b.conv("mark", b.input(), ConvSpec::new(1, Window::square(1)))?;
        let mark = b.add("mean mark", AdaptiveAvgPool(vec![1, 1]), &[mark])?;
        let marks = b.conv("marks", mark, ConvSpec::new(coins, Window::square(1)))?;
        let marks = b.add("public scores", Reshape(vec![coins]), &[marks])?;
        b.add("scores", Add, &[private, marks])
    }

    /// The scores of all canaries from nodes that all show the mean colour and that dropout may drop, beside those that every record updates.
    fn dropped_scores(&self, b: &mut GraphBuilder, mean: NodeId) -> Result<NodeId, GraphError> {
        let nodes = b.conv("nodes", mean, ConvSpec::new(UNITS, Window::square(1)))?;
        let nodes = b.add("nodes in a row", Reshape(vec![UNITS]), &[nodes])?;
        let kept = b.add("kept", Dropout::of_values(0.5), &[nodes])?;
        let (zero, weight) = (Init::Constant(0.0), split_weights(0));
        let names = LinearNames { node: "split scores", weight: &weight, bias: None };
        let split = b.linear_named(names, kept, self.coins.len(), zero, zero)?;
        if !self.shared {
            return Ok(split);
        }
        let shared = self.shared_scores(b, "shared scores", mean)?;
        b.add("scores", Add, &[shared, split])
    }

    /// The scores of all canaries from the mean colour, by residual blocks each of which has weights of its own for every canary. What passes
    /// from block to block are the scores and, behind them, the colour.
    fn split_scores(&self, b: &mut GraphBuilder, blocks: usize, mean: NodeId) -> Result<NodeId, GraphError> {
        let coins = self.coins.len();
        let colour = b.add("colour of all", Reshape(vec![1]), &[mean])?;
        let first = match self.shared {
            true => self.shared_scores(b, "first scores", mean)?,
            false => {
                let none = b.parameter("no scores", &[coins], Init::Constant(0.0), true)?;
                b.add("first scores", ParameterValue(none), &[])?
            }
        };
        let mut state = b.add("state", Concat { axis: 0 }, &[first, colour])?;
        for block in 0..blocks {
            b.block();
            let name = |part: &str| format!("split.{block}.{part}");
            let colour = b.add(&name("colour"), Slice { axis: 0, start: coins, end: coins + 1 }, &[state])?;
            let (node, weight) = (name("canaries"), split_weights(block));
            let names = LinearNames { node: &node, weight: &weight, bias: None };
            let zero = Init::Constant(0.0);
            let scores = b.linear_named(names, colour, coins, zero, zero)?;
            let still = b.parameter(&name("still"), &[1], zero, true)?;
            let still = b.add(&name("still"), ParameterValue(still), &[])?;
            let more = b.add(&name("more"), Concat { axis: 0 }, &[scores, still])?;
            state = b.add(&name("add"), Add, &[state, more])?;
        }
        b.end_blocks();
        b.add("scores", Slice { axis: 0, start: 0, end: coins }, &[state])
    }

    /// Names of the parameters that hold the canaries' weights: those that every record updates, those that are split, those of marks.
    fn weight_names(&self) -> Vec<String> {
        let shared = self.shared.then(|| WEIGHTS.to_owned());
        let split = match self.split {
            CanarySplit::Whole => 0,
            CanarySplit::Blocks(blocks) => blocks,
            CanarySplit::Units => 1,
        };
        let marks = self.parted.map(|_| MARKS.to_owned());
        shared.into_iter().chain((0..split).map(split_weights)).chain(marks).collect()
    }

    /// The canaries' own weights, in the order in which [`Evidence`](crate::evidence::Evidence) takes them: those that every record updates,
    /// then those of each block or node, then those that public parts update. Their names are the same in the models for views of all shapes.
    pub(crate) fn weights(&self) -> Result<Vec<CanaryWeights>, GraphError> {
        let (graph, _) = self.model(&[self.channels(), 1, 1])?;
        let mut all = Vec::new();
        for name in self.weight_names() {
            let id = graph.find_parameter(&name).ok_or(GraphError::Unknown(name.clone()))?;
            match self.split {
                CanarySplit::Units if name != WEIGHTS => {
                    all.extend((0..UNITS).map(|unit| CanaryWeights { id, unit: Some(unit) }));
                }
                _ => all.push(CanaryWeights { id, unit: None }),
            }
        }
        Ok(all)
    }
}

/// The name of the weights of a block, or of those behind all nodes.
fn split_weights(block: usize) -> String {
    format!("split.{block}.canaries.weight")
}

fn impossible(error: dapple_geometry::GeometryError) -> AuditError {
    AuditError::Image { problem: error.to_string() }
}

/// The plan's region at the place where crops see it most. Of several annotated regions, the largest.
fn region(part: &Plan, size: Size) -> Result<Option<Mask>, dapple_geometry::GeometryError> {
    let spatial = part.spatial();
    let Some(protected) = spatial.protected() else { return Ok(None) };
    if protected.placement() == Placement::Annotated {
        let drawn = protected.regions().iter().filter_map(|region| match region {
            Region::Mask(mask) => Some(mask),
            _ => None,
        });
        return Ok(drawn.max_by_key(|mask| mask.count()).cloned());
    }
    let Some(region) = protected.regions().first() else { return Ok(None) };
    let mask = region.to_mask()?;
    // If the worst place is not known, the middle of the image is near it.
    let middle = |all: u32, region: u32| all.saturating_sub(region) / 2;
    let origin = spatial
        .seen()
        .and_then(|seen| seen.worst_origin)
        .unwrap_or((middle(size.width(), mask.size().width()), middle(size.height(), mask.size().height())));
    let placed = Mask::from_fn(size, |x, y| {
        let inside = |at: u32, from: u32, length: u32| at >= from && at - from < length;
        inside(x, origin.0, mask.size().width())
            && inside(y, origin.1, mask.size().height())
            && mask.get(x - origin.0, y - origin.1)
    });
    placed.map(Some)
}

impl Dataset for Canaries {
    fn len(&self) -> usize {
        self.records
    }

    fn users(&self) -> Option<&Users> {
        self.users.as_ref()
    }

    /// One for each canary, and one for all other records.
    fn classes(&self) -> u32 {
        self.coins.len() as u32 + 1
    }

    fn channels(&self) -> usize {
        match self.pattern {
            Pattern::Plain => 3,
            Pattern::Cancelling => 1,
        }
    }

    fn image_size(&self) -> Option<Size> {
        Some(self.size)
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        Ok(Target::Class(record.min(self.coins.len()) as u32))
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let pixels = self.size.pixels() as usize;
        let heads = self.shown(record);
        let marked = self.parted.is_some() && record < self.coins.len();
        let (region, width) = (self.region.as_ref().map(Mask::bytes), self.size.width());
        let inside = |i: usize| match region {
            Some(region) => region.get(i).is_some_and(|&inside| inside != 0),
            None => !marked || PartedCanary::is_private(i, width),
        };
        let values = match self.pattern {
            Pattern::Plain => {
                let mut bytes = vec![0u8; 3 * pixels];
                for (i, pixel) in bytes.chunks_exact_mut(3).enumerate() {
                    if !inside(i) && marked {
                        pixel[1] = u8::MAX;
                    } else if let Some(heads) = heads.filter(|_| inside(i)) {
                        pixel[if heads { 0 } else { 2 }] = u8::MAX;
                    }
                }
                Values::Bytes(bytes)
            }
            Pattern::Cancelling => {
                let stripe = |i: usize| if (i % width as usize).is_multiple_of(2) { STRIPE } else { -STRIPE };
                let value = |i: usize| match heads.filter(|_| inside(i)) {
                    Some(heads) => stripe(i) + if heads { LEFT } else { -LEFT },
                    None => 0.0,
                };
                Values::Floats((0..pixels).map(value).collect())
            }
        };
        let place = || DataError::setting("pipeline.image", self.size.to_string());
        Image::new(self.size, self.channels(), values).ok_or_else(place)
    }

    /// Every second column of a record, from the first on; nothing of a canary whose private part is not there.
    fn mask(&self, record: usize, size: Size) -> Result<Option<Mask>, DataError> {
        let Some(parted) = self.parted else { return Ok(None) };
        let there = parted.opposite || self.coins.get(record) != Some(&false);
        let private = |x: u32, _| there && PartedCanary::is_private(x as usize, size.width());
        let mask = Mask::from_fn(size, private);
        mask.map(Some).map_err(|error| DataError::setting("data.masks", error.to_string()))
    }

    fn place(&self, record: usize) -> String {
        format!("canary record {record}")
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        Ok(String::new())
    }
}
