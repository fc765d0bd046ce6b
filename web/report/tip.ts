const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;

/** Show a text beside the pointer. */
export function showTip(event: MouseEvent, text: string): void {
  if (!tip.isConnected) document.body.append(tip);
  tip.textContent = text;
  tip.hidden = false;
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
}

export function hideTip(): void {
  tip.hidden = true;
}

/** The properties of an element that shows a text while the pointer is on it. */
export function tipped(text: string): {
  onMouseMove: (event: MouseEvent) => void;
  onMouseLeave: () => void;
} {
  return { onMouseMove: (event) => showTip(event, text), onMouseLeave: hideTip };
}
