// Browsers start no worker for a page that is read from a file. The search has one: here it runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inner = this.frame.contentWindow
      inner.document.open()
      inner.document.write("<!doctype html><body></body>")
      inner.document.close()
      inner.postMessage = data => setTimeout(() => this.tell("message", { data }))
      this.loaded = new Promise(resolve => {
        const script = inner.document.createElement("script")
        script.src = new URL(url, location.href).href
        script.onload = resolve
        script.onerror = () => this.tell("error", {})
        inner.document.body.append(script)
      })
    }
    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow?.dispatchEvent(new MessageEvent("message", { data })))
    }
    tell(type, values) {
      const event = new MessageEvent(type, { ...values, cancelable: true })
      this["on" + type]?.(event)
      this.dispatchEvent(event)
    }
    terminate() {
      this.frame.remove()
    }
  }
}
