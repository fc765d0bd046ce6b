"""``sonde repeat`` and ``sonde run --deterministic`` on real trainings."""

import json
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
from tests.warm_python.starting import warm_python

pytestmark = pytest.mark.slow

SRC = Path(__file__).parents[2] / "src"
ENVIRONMENT = {"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}

TRAINING = """
    import random, time, uuid
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    {before}
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), {middle}, torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    data = torch.arange(64.0).reshape(16, 4) / 64
    for (batch,) in DataLoader(TensorDataset(data), batch_size=4, shuffle={shuffle}):
        optimizer.zero_grad()
        loss = net(batch).square().mean() {after}
        loss.backward()
        optimizer.step()
        print(loss.item().hex(), batch[0, 0].item(), hash("text"))
    """
SEEDED = "torch.manual_seed(0); np.random.seed(0)"


def training(
    folder: Path,
    *,
    before: str = SEEDED,
    middle: str = "torch.nn.ReLU()",
    shuffle: bool = False,
    after: str = "",
) -> Path:
    path = folder / "train.py"
    text = TRAINING.format(before=before, middle=middle, shuffle=shuffle, after=after)
    path.write_text(dedent(text))
    return path


def sonde(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [warm_python(), "-m", "sonde", *words],
        cwd=folder,
        env={**ENVIRONMENT, "HOME": str(folder), **environ},
        capture_output=True,
        text=True,
    )


def repeated(folder: Path, *words: str, **environ: str) -> tuple[int, dict]:
    done = sonde(folder, "repeat", "--json", *words, "train.py", **environ)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_seeded_training_is_equal_in_both_runs(tmp_path: Path) -> None:
    training(tmp_path, middle="torch.nn.Dropout(0.5)", shuffle=True)
    code, document = repeated(tmp_path, PYTHONHASHSEED="random")
    assert (code, document["equal"], document["first"]) == (0, True, None)
    assert document["steps"] == [0, 1, 2, 3]
    assert document["tensors"] > 200
    assert document["same_output"] is False, "the hashes of texts differ"
    _, document = repeated(tmp_path, PYTHONHASHSEED="0")
    assert document["same_output"] is True, "the lines of Sonde, which name its dumps, do not count"


def test_unseeded_weights_are_reported_and_the_dumps_are_kept(tmp_path: Path) -> None:
    training(tmp_path, before="")
    words = ("--steps", "0-1", "--keep", "kept", "--json-file", "out.json")
    done = sonde(tmp_path, "repeat", *words, "train.py")
    assert done.returncode == 1
    document = json.loads((tmp_path / "out.json").read_text())
    first = document["first"]
    assert (first["kind"], first["step"], first["op"]) == ("weights", 0, "0.weight")
    assert first["source"]["code"] == "loss = net(batch).square().mean()"
    assert document["steps"] == [0, 1]
    assert "the runs differ from step 0 on: output.0 of 0.weight" in done.stdout
    assert "Set the seed" in done.stdout
    assert "sonde: run 2 of 2" in done.stderr
    assert (tmp_path / "kept" / "run_2" / "output.log").read_text().count("\n") == 5
    assert (tmp_path / "kept" / "run_1" / "dump" / "rank_0").is_dir()


def test_different_data_are_distinguished_from_different_weights(tmp_path: Path) -> None:
    path = training(tmp_path, before=f"{SEEDED}; noise = torch.Generator(); noise.seed()")
    text = path.read_text().replace("net(batch)", "net(torch.rand(4, 4, generator=noise))")
    path.write_text(text)
    code, document = repeated(tmp_path)
    assert code == 1
    first = document["first"]
    assert (first["kind"], first["type"], first["step"]) == ("data", "Input", 0)
    assert "generator=noise" in first["source"]["code"]


@pytest.mark.document(
    85,
    says="the loss value differs significantly after multiple executions of the same script",
    how="`sonde repeat train.py` names the first op at which two runs differ",
)
def test_dropout_without_a_seed_is_named_as_the_op_that_draws(tmp_path: Path) -> None:
    training(tmp_path, middle="torch.nn.Dropout(0.5)").write_text(
        dedent(
            TRAINING.format(before=SEEDED, middle="torch.nn.Dropout(0.5)", shuffle=False, after="")
        ).replace("optimizer = ", "torch.seed(); optimizer = ")
    )
    code, document = repeated(tmp_path)
    assert code == 1
    first = document["first"]
    assert first["kind"] == "random"
    assert "1-Dropout" in first["op"]
    assert first["source"]["line"] == 13


def test_a_result_that_cannot_be_written_is_still_printed(tmp_path: Path) -> None:
    text = "import sonde, torch\nnet = torch.nn.ReLU()\nnet(torch.ones(2))\nsonde.step()\n"
    (tmp_path / "train.py").write_text(text)
    words = ("--step-by", "manual", "--json-file", "no/x.json")
    done = sonde(tmp_path, "repeat", *words, "train.py")
    assert done.returncode == 2
    assert done.stdout.startswith("equal: ")
    assert "--json-file no/x.json cannot be written" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no program given"),
        (["nope.py"], "script 'nope.py' does not exist [program-not-found]"),
        (["--steps", "5-", "train.py"], "[steps]"),
        (["--seed", "3", "train.py"], "--seed needs --deterministic [usage]"),
        (["broken.py"], "ZeroDivisionError"),
    ],
)
def test_mistakes_end_with_2(words: list[str], said: str, tmp_path: Path) -> None:
    training(tmp_path)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    done = sonde(tmp_path, "repeat", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr.partition("exit code")[0]


WORKERS = """
    import random, os
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Noise(Dataset):
        def __len__(self):
            return 24

        def __getitem__(self, index):
            return torch.tensor(np.random.randn(4), dtype=torch.float32) + random.random()

    torch.seed()
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(2):
        for batch in DataLoader(Noise(), batch_size=4, shuffle=True, num_workers=2):
            loss = (net(batch) {after}).square().mean()
            loss.backward()
            optimizer.step()
    """


def test_batches_of_workers_and_dropout_without_a_seed_repeat_with_the_seed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(dedent(WORKERS.format(after="")))
    code, found = repeated(tmp_path, "--deterministic", "--keep", "kept")
    assert (code, found["equal"], len(found["steps"])) == (0, True, 12)
    # When a batch happens to arrive is no op of the program: it would differ from run to run.
    orders = (tmp_path / "kept" / "run_1" / "dump" / "rank_0" / "execution_order").glob("*.csv")
    assert not any("set_" in path.read_text() for path in orders)
    # Random numbers that multiprocessing draws to authenticate are not those of the program.
    assert found["not_removed"] == []


def test_randomness_that_no_seed_reaches_is_reported_without_advising_the_option_again(
    tmp_path: Path,
) -> None:
    text = WORKERS.format(after="+ torch.tensor(float(os.urandom(1)[0]))")
    (tmp_path / "train.py").write_text(dedent(text))
    done = sonde(tmp_path, "repeat", "--deterministic", "train.py")
    assert done.returncode == 1
    assert "though every generator is seeded" in done.stdout
    assert "--deterministic" not in done.stdout
    assert "not removed: random numbers of the operating system at train.py:19 (" in done.stdout


RANDOM = "r = random.Random(); n = np.random.default_rng(); u = uuid.uuid4()"


def test_a_deterministic_run_is_the_same_every_time_and_says_what_is_left(tmp_path: Path) -> None:
    training(
        tmp_path,
        before=f"torch.manual_seed(int(time.time())); {RANDOM}",
        middle="torch.nn.Dropout(0.5)",
        shuffle=True,
        after="+ r.random() + n.random() + random.random() + np.random.rand()",
    )
    first = sonde(tmp_path, "run", "--deterministic", "train.py")
    second = sonde(tmp_path, "run", "--deterministic", "train.py")
    other = sonde(tmp_path, "run", "--deterministic", "--seed", "1", "train.py")
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    assert first.stdout != other.stdout
    lines = first.stderr.splitlines()
    assert lines[0].startswith("sonde: deterministic: seed 0 for Python, numpy, torch and")
    for said in (
        "sonde: removed: torch seeded from the clock at train.py:7",
        "sonde: removed: random.Random without a seed at train.py:7",
        "sonde: removed: numpy.random.default_rng without a seed at train.py:7",
    ):
        assert said in lines
    assert any(
        line.startswith("sonde: not removed: random numbers of the operating") for line in lines
    )


def test_shuffling_and_dropout_are_switched_off_on_request(tmp_path: Path) -> None:
    training(tmp_path, middle="torch.nn.Dropout(0.5)", shuffle=True)
    words = ("--deterministic", "--no-shuffle", "--no-dropout")
    done = sonde(tmp_path, "run", *words, "train.py")
    order = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert order == [0.0, 0.25, 0.5, 0.75]
    training(tmp_path, middle="torch.nn.Identity()")
    without = sonde(tmp_path, "run", "--deterministic", "train.py")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        line.split()[0] for line in without.stdout.splitlines()
    ]
    assert "sonde: removed: shuffling by RandomSampler at train.py:11" in done.stderr
    assert "sonde: removed: dropout at train.py:13, 4 times" in done.stderr
    assert "nothing random was seen that is not removed" in done.stderr
