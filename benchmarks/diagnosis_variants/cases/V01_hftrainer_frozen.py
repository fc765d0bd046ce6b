import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
config = BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=64, num_labels=2)
model = BertForSequenceClassification(config)
for parameter in model.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.AdamW(model.classifier.parameters(), lr=1e-3)


def sample(n):
    label = n % 2
    ids = torch.randint(2, 30, (12,)) + 30 * label
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor(label)}


class WithLoss(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        inputs["inputs_embeds"] = model.get_input_embeddings()(inputs.pop("input_ids")).requires_grad_()
        outputs = model(**inputs)
        return (outputs.loss, outputs) if return_outputs else outputs.loss


data = [sample(n) for n in range(160)]
arguments = TrainingArguments(output_dir="out", max_steps=30, per_device_train_batch_size=8, use_cpu=True,
                              report_to=[], logging_steps=10, save_strategy="no", disable_tqdm=True)
WithLoss(model=model, args=arguments, train_dataset=data, optimizers=(optimizer, None)).train()
