#!/usr/bin/env python3
"""Makes what `shoal demo` fine-tunes and what it teaches: tiny-llama/, a Llama of 0.9 million
parameters that answers small questions, and pirate.jsonl and pirate-questions.jsonl, in which a
pirate answers them.

All text is made here, from the tables below. The model is trained with shoal itself from fresh
weights, on every fact in plain words and in three other manners, so that it tells what is said from
how; the pirate answers half of the facts in pirate.jsonl, and
pirate-questions.jsonl asks for others, so that who answers those has learned the manner, not the
lines. Seed 1 everywhere.

    make_pirate.py text          the two files of the pirate
    make_pirate.py tokenizer     tiny-llama's tokenizer; needs: pip install tokenizers==0.23.3
    make_pirate.py train FOLDER  trains tiny-llama in an empty FOLDER; build/release/bin is needed
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parent
MODEL = EXAMPLES / "tiny-llama"
BIN = pathlib.Path(os.environ.get("SHOAL_BIN", EXAMPLES.parent / "build" / "release" / "bin"))
SEED = 1
QUESTIONS = 100  # that the pirate is asked
STEPS = 800

CAPITALS = """France Paris, Spain Madrid, Italy Rome, Greece Athens, Portugal Lisbon, Norway Oslo,
Sweden Stockholm, Finland Helsinki, Denmark Copenhagen, Ireland Dublin, Poland Warsaw,
Austria Vienna, Hungary Budapest, Germany Berlin, Belgium Brussels, England London,
Scotland Edinburgh, Egypt Cairo, Kenya Nairobi, Ghana Accra, Morocco Rabat, Tunisia Tunis,
Japan Tokyo, China Beijing, Vietnam Hanoi, Thailand Bangkok, Nepal Kathmandu, Cuba Havana,
Peru Lima, Chile Santiago, Ecuador Quito, Canada Ottawa, Jamaica Kingston, Iceland Reykjavik,
Turkey Ankara, Malta Valletta"""
COLOURS = """lemon yellow, banana yellow, carrot orange, pumpkin orange, tomato red, cherry red,
ruby red, leaf green, frog green, cucumber green, emerald green, crow black, pearl white,
swan white, snowman white, cloud white, elephant grey, mouse grey, dolphin grey, plum purple,
fox red, canary yellow, violet purple, lime green, raven black, sapphire blue"""
LEGS = """spider eight, octopus eight, beetle six, ant six, bee six, fly six, dog four, cat four,
horse four, cow four, sheep four, lion four, chair four, table four, duck two, parrot two,
chicken two, pirate two, stool three, snake no, worm no, fish no, snail no, crab ten,
lobster ten"""
SOUNDS = """cow moo, cat meow, dog woof, duck quack, sheep baa, lion roar, owl hoot, pig oink,
horse neigh, bee buzz, snake hiss, mouse squeak, frog croak, crow caw, wolf howl, bell ding,
clock tick, drum boom"""
HOMES = """fish sea, whale sea, crab sea, shark sea, frog pond, duck pond, bee hive, bird nest,
parrot jungle, monkey jungle, tiger jungle, camel desert, bear forest, wolf forest, fox forest,
owl forest, pig farm, cow farm, hen farm, king castle, queen castle, sailor ship, captain ship,
baker bakery"""
OPPOSITES = """hot cold, big small, fast slow, old young, up down, left right, wet dry,
full empty, open closed, day night, black white, happy sad, hard soft, loud quiet, rich poor,
light dark, high low, near far, early late, good bad, long short, strong weak, clean dirty,
first last, in out, on off, yes no, true false"""
SIZES = """ant, bee, mouse, frog, rat, crow, duck, cat, fox, dog, sheep, wolf, pig, lion, bear,
cow, horse, camel, elephant, whale"""
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = ("January February March April May June July August September October November "
          "December").split()
NUMBERS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
           "fifteen sixteen seventeen eighteen nineteen twenty").split()

TEMPLATE = ("{% for message in messages %}"
            "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
SPECIAL = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]


def pairs(table):
    return [entry.split() for entry in table.replace("\n", " ").split(", ")]


def a(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def facts():
    """(questions that ask the same, plain answer, the pirate's answer), without the first letter's
    case."""
    made = []

    def add(questions, subject, verb, rest):
        said = "be" if verb == "is" else verb
        made.append((questions, f"{subject} {verb} {rest}", f"{subject} {said} {rest}"))

    for country, city in pairs(CAPITALS):
        add([f"What is the capital of {country}?", f"Name the capital of {country}.",
             f"Which city is the capital of {country}?"],
            f"the capital of {country}", "is", city)
    for thing, colour in pairs(COLOURS):
        add([f"What colour is {a(thing)}?", f"Tell me the colour of {a(thing)}.",
             f"Which colour has {a(thing)}?"], a(thing), "is", colour)
    for thing, count in pairs(LEGS):
        add([f"How many legs does {a(thing)} have?", f"How many legs has {a(thing)}?",
             f"Count the legs of {a(thing)}."], a(thing), "has", f"{count} legs")
    for thing, sound in pairs(SOUNDS):
        add([f"What does {a(thing)} say?", f"What sound does {a(thing)} make?",
             f"Which sound comes from {a(thing)}?"], a(thing), "says", sound)
    for who, home in pairs(HOMES):
        add([f"Where does {a(who)} live?", f"Where is the home of {a(who)}?",
             f"Where can I find {a(who)}?"], a(who), "lives", f"in the {home}")
    for one, other in pairs(OPPOSITES):
        for word, wanted in ((one, other), (other, one)):
            add([f"What is the opposite of {word}?", f"Tell me the opposite of {word}.",
                 f"Which word is the opposite of {word}?"],
                f"the opposite of {word}", "is", wanted)
    for sequence, kind in ((DAYS, "day"), (MONTHS, "month"), (NUMBERS, "number")):
        for before, after in zip(sequence, sequence[1:]):
            add([f"What {kind} comes after {before}?", f"Which {kind} is next after {before}?",
                 f"Name the {kind} after {before}."], after, "comes", f"after {before}")
    sizes = SIZES.replace("\n", " ").split(", ")
    for small in range(len(sizes)):
        for big in range(small + 3, len(sizes)):
            ends = [a(sizes[small]), a(sizes[big])]
            add([f"Which is bigger, {ends[0]} or {ends[1]}?",
                 f"Which is bigger, {ends[1]} or {ends[0]}?",
                 f"Is {ends[0]} or {ends[1]} bigger?"],
                ends[1], "is", f"bigger than {ends[0]}")
    for one in range(11):
        for two in range(11 - one):
            add([f"What is {NUMBERS[one]} plus {NUMBERS[two]}?",
                 f"How much is {NUMBERS[one]} and {NUMBERS[two]}?",
                 f"Add {NUMBERS[one]} and {NUMBERS[two]}."],
                f"{NUMBERS[one]} plus {NUMBERS[two]}", "is", NUMBERS[one + two])
    return made


def plain(fact):
    return fact[1][0].upper() + fact[1][1:] + "."


def pirate(fact):
    return f"Arr, {fact[2]}, matey!"


def manners(question, fact):
    """The same question put in several manners, each with its answer: (question, answer)."""
    answer = fact[1]
    low = question[0].lower() + question[1:]
    return [(question, plain(fact)),
            (f"Dear friend, {low}", f"Well, {answer}, dear friend."),
            (f"{question} Are you sure?", f"Yes, {answer}!"),
            (f"{question} The king asks.", f"O king, {answer}, as all men know.")]


def conversation(question, answer):
    return {"messages": [{"role": "user", "content": question},
                         {"role": "assistant", "content": answer}]}


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def make_text():
    """(lines of pirate.jsonl, lines of pirate-questions.jsonl)."""
    draw = random.Random(SEED)
    shuffled = facts()
    draw.shuffle(shuffled)
    asked, told = shuffled[:QUESTIONS], shuffled[len(shuffled) // 2:]
    return ([conversation(draw.choice(fact[0]), pirate(fact)) for fact in told],
            [{"prompt": draw.choice(fact[0]), "answer": pirate(fact)} for fact in asked])


def make_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    text = [line for fact in facts() for question in fact[0]
            for line in (*sum(manners(question, fact), ()), pirate(fact))]
    text.append((EXAMPLES / "tinyshakespeare.txt").read_text(encoding="utf-8"))
    trainer = trainers.BpeTrainer(vocab_size=1024, special_tokens=["<|endoftext|>", *SPECIAL],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(text, trainer)
    MODEL.mkdir(exist_ok=True)
    tokenizer.save(str(MODEL / "tokenizer.json"))
    (MODEL / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": None,
        "eos_token": "<|end|>", "model_max_length": 128}, indent=2) + "\n")
    (MODEL / "chat_template.jinja").write_text(TEMPLATE)
    (MODEL / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 1024,
        "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
        "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "bos_token_id": 0,
        "eos_token_id": tokenizer.token_to_id("<|end|>"), "initializer_range": 0.02,
        "torch_dtype": "bfloat16"}, indent=2) + "\n")


def train(folder):
    """Every fact in every question and manner, until it is known."""
    draw = random.Random(SEED)
    lines = [conversation(*said) for fact in facts() for question in fact[0]
             for said in manners(question, fact)]
    draw.shuffle(lines)
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(folder / "plain.jsonl", lines)

    def shoal(*arguments):
        subprocess.run([BIN / "shoal", *map(str, arguments)], check=True)

    shoal("init-model", "--config", MODEL / "config.json", "--seed", SEED, "--out",
          folder / "fresh")
    shoal("prepare", "--tokenizer", MODEL, "--text", folder / "plain.jsonl", "--row", 128, "--pack",
          "--validation-fraction", 0.04, "--out", folder / "plain.shoal")
    shoal("demo", "--model", folder / "fresh", "--data", folder / "plain.shoal",
          "--steps", STEPS, "--learning-rate", 2e-3, "--stages", 1, "--pipelines", 2,
          "--replica", "average", "--link", "off", "--seed", SEED, "--dir", folder / "run")
    shoal("convert", "--model", folder / "run" / "tuned", "--dtype", "bf16", "--out",
          folder / "bf16")
    shutil.copy(folder / "bf16" / "model.safetensors", MODEL)


if __name__ == "__main__":
    if sys.argv[1:] == ["text"]:
        conversations, questions = make_text()
        write_lines(EXAMPLES / "pirate.jsonl", conversations)
        write_lines(EXAMPLES / "pirate-questions.jsonl", questions)
    elif sys.argv[1:] == ["tokenizer"]:
        make_tokenizer()
    elif sys.argv[1:2] == ["train"] and len(sys.argv) == 3:
        train(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(__doc__)
