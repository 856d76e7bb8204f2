"""Plans that tests share: one of every relation, scheme and part that a plan can have."""

RECORDS = dict(batch=100, records=3000, epochs=10, noise_multiplier=1.0, delta=1e-5)
CROP = dict(image=(1000, 1000), crop=(100, 100), patch=(10, 10))
#: The small crops of the paper on patch-level privacy, as in its Figure 2a.
PATCH = dict(CROP, batch=100, records=3000, epochs=100, noise_multiplier=1.0, delta=1e-5, sampling="poisson")

PLANS = {
    "add-remove": RECORDS,
    "replace": dict(RECORDS, relation="replace"),
    "without replacement": dict(RECORDS, relation="replace", sampling="without-replacement"),
    "one over n": dict(RECORDS, delta="1/n"),
    "steps": dict(batch=7, records=1000, steps=123, noise_multiplier=0.71, delta=3e-7),
    "patch": PATCH,
    "patch without replacement": dict(PATCH, sampling="without-replacement"),
    "replace, crop ignored": dict(PATCH, relation="replace"),
    "circle": dict(RECORDS, image=(640, 480), crop=(224, 224), circle=12.5),
    "padding": dict(PATCH, pad=20),
    "reflected padding": dict(PATCH, pad=(20, 10), pad_mode="reflect"),
    "views": dict(PATCH, views=4),
    "resized crops": dict(RECORDS, image=(640, 480), crop_scale=(0.08, 1.0), crop_ratio=(0.75, 1.3333), patch=(16, 16)),
    "rdp": dict(RECORDS, accountant="rdp"),
    "rdp patch": dict(PATCH, accountant="rdp"),
    "user": dict(RECORDS, relation="user"),
    "microbatches": dict(RECORDS, records_per_clip=2),
    "mix": dict(RECORDS, views=2, self_mix=4, synthetic=1),
    "masked": dict(RECORDS, relation="masked", public_gradient="coupled-clipped", public_clip=0.5),
    "balanced": dict(batch=100, records=3000, epochs=2, sampling="balanced", noise_multiplier=1.0, delta=1e-5),
    "balanced, seen twice": dict(
        batch=100, records=3000, epochs=1, per_record=2, sampling="balanced", noise_multiplier=1.0, delta=1e-5
    ),
    "submodels": dict(RECORDS, submodels=4),
    "partly split": dict(RECORDS, submodels=2, split_norm=0.8, nonsplit_norm=0.6),
    "dropout": dict(RECORDS, dropout=0.5),
}
