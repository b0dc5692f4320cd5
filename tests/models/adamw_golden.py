"""What PyTorch computes with a model in some steps of AdamW, as goldens keep it."""

import torch

# A key bias has no gradient but noise, which a small epsilon would make steps of.
STEPS, RATE, EPSILON = 3, 1e-2, 1e-4


def loss_of(logits, labels):
    chosen = labels.flatten() if logits.dim() == 3 else labels[:, 0]
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2), chosen, ignore_index=-100,
                                             reduction="sum")


def train(trained, logits_of, golden):
    """Adds to `golden` logits, loss and gradients of the first step, and what the last one left.
    `trained`: parameters by their names there; logits_of(): of the model as it is."""
    labels = golden["labels"]
    decay = [p for p in trained.values() if p.dim() >= 2]
    others = [p for p in trained.values() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01},
                                   {"params": others, "weight_decay": 0.0}],
                                  lr=RATE, betas=(0.9, 0.999), eps=EPSILON)
    for step in range(STEPS):
        logits = logits_of()
        loss = loss_of(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            golden["logits"] = logits.detach().clone()
            golden["loss"] = loss.detach().double().reshape(1)
            for name, parameter in trained.items():
                golden["gradient." + name] = parameter.grad.clone()
        count = (labels != -100).sum()
        for parameter in trained.values():
            parameter.grad /= count
        torch.nn.utils.clip_grad_norm_(list(trained.values()), 1.0)
        optimizer.step()
    for name, parameter in trained.items():
        golden["after." + name] = parameter.detach().clone()
